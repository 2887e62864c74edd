#!/usr/bin/env python3
"""make_seeds.py — write the seeds of the codec targets: a piece of each type's goldens, and each type
with a piece of the golden inputs, with and without weights."""
import pathlib
import re

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


def main():
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
