#!/usr/bin/env python3
"""make_seeds.py — write the seeds of the codec targets: a piece of each type's goldens, and each type
with a piece of the golden inputs, with and without weights; and of the model room's targets: a small
importance matrix in both forms, recipes."""
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "goldens"


def dtypes():
    """(id, lower-case name, elements, bytes) of dtypes.def."""
    for line in (ROOT / "src/dtype/dtypes.def").read_text().splitlines():
        row = re.match(r'QN_DTYPE_ROW\(\s*(\d+), \w+,\s*"(\w+)",\s*(\d+),\s*(\d+)', line)
        if row:
            yield int(row[1]), row[2].lower(), int(row[3]), int(row[4])


def write(target, name, data):
    folder = ROOT / "fuzz" / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def imatrix_gguf(entries):
    """A matrix in GGUF form: name, sums, counts."""
    keys = [("general.type", 8, string("imatrix")),
            ("imatrix.datasets", 9, struct.pack("<IQ", 8, 1) + string("text.txt")),
            ("imatrix.chunk_count", 4, struct.pack("<I", 3)),
            ("imatrix.chunk_size", 4, struct.pack("<I", 512))]
    infos, data = b"", b""
    for name, sums, counts in entries:
        for suffix, values in ((".in_sum2", sums), (".counts", counts)):
            ne = (len(values) // len(counts), len(counts))
            infos += string(name + suffix) + struct.pack("<IQQIQ", 2, *ne, 0, len(data))
            data += struct.pack("<%df" % len(values), *values)
            data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(entries), len(keys))
    for key, kind, value in keys:
        head += string(key) + struct.pack("<I", kind) + value
    head += infos
    return head + bytes(-len(head) % 32) + data


def imatrix_dat(entries):
    out = struct.pack("<i", len(entries))
    for name, sums, counts in entries:
        out += struct.pack("<i", len(name)) + name.encode()
        out += struct.pack("<ii%df" % len(sums), 3, len(sums), *sums)
    return out + struct.pack("<ii", 3, 8) + b"text.txt"


def model_targets():
    entries = [("blk.0.attn_q.weight", [1.0, 2.0, 3.0, 4.0], [512.0]),
               ("blk.0.ffn_up_exps.weight", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [512.0, 0.0, 7.5])]
    write("imatrix", "gguf", imatrix_gguf(entries))
    write("imatrix", "dat", imatrix_dat(entries))
    write("imatrix", "dat.short", imatrix_dat(entries[:1])[:-16])
    write("recipe", "two", b"# comment\n^blk\\.0\\.attn_v = q6_K\n\nffn_(up|gate)=Q4_K\r\n")
    write("recipe", "equals", b"a=b=f16")
    write("recipe", "bad", b"attn_v q6_K\n")


def main():
    model_targets()
    inputs = (GOLDENS / "inputs.f32").read_bytes()
    weights = (GOLDENS / "imatrix.f32").read_bytes()
    for number, name, elems, n_bytes in dtypes():
        tag = bytes([number + 1])
        golden = GOLDENS / f"{name}.imat.bin"
        if not golden.exists():
            golden = GOLDENS / f"{name}.bin"
        blocks = golden.read_bytes() if golden.exists() else inputs
        write("codec_decode", name, tag + blocks[: 3 * n_bytes])
        n = 4 * max(elems, 64)
        values = inputs[4 * 1024 * 2 :][:n]
        write("codec_encode", name, tag + b"\0" + values)
        write("codec_encode", f"{name}.weights", tag + b"\1" + weights[:n] + values)


main()
