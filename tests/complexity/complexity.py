#!/usr/bin/env python3
"""Hostile inputs whose cost must grow linearly: instructions counted by valgrind, by doubling.

usage: complexity.py --quench PROGRAM [--only NAME] [--size N] [--json FILE]

Each row makes an input of n, 2n and 4n parts. With I(n) instructions, the second step I(4n) - I(2n) may
be at most 2.6 times the first, I(2n) - I(n): 2 for a linear cost, about 2.2 with a sort, 4 for a
quadratic one. Time is never looked at. Exit status 77 without valgrind."""
import argparse
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import make_fixtures as m  # noqa: E402

MOST = 2.6
NOISE = 20000  # instructions that differ from run to run, by the names of folders and the clock
ARCHITECTURE = [("general.architecture", m.STRING, "llama")]


# --- inputs -----------------------------------------------------------------------------------------

def gguf(keys, infos, data=b""):
    """`infos`: (name, offset, dimensions) of f32, or with the number of another type."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    parts = [head]
    for name, kind, payload in keys:
        parts.append(m.string(name) + struct.pack("<I", kind) + m.value(kind, payload))
    for name, offset, ne, *dtype in infos:
        parts.append(m.string(name) + struct.pack("<I%dQIQ" % len(ne), len(ne), *ne, *(dtype or [0]), offset))
    head = b"".join(parts)
    return head + bytes(m.padded(len(head))) + data


def plain(n, name="tensor.%d.weight"):
    return [(name % i, 32 * i, (8,)) for i in range(n)]


def reordered(infos, order):
    offsets = [i[1] for i in infos]
    order(offsets)
    return [(name, offset, ne) for (name, _, ne), offset in zip(infos, offsets)]


def shuffled(offsets):
    random.Random(1).shuffle(offsets)


def many_tensors(n, **how):
    return gguf(ARCHITECTURE, plain(n, **how), bytes(32 * n))


def safetensors(members, n_data):
    header = ("{" + ",".join(members) + "}").encode()
    return struct.pack("<Q", len(header)) + header + bytes(n_data)


def member(name, begin, end, more=""):
    return '"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]%s}' % (name, end - begin, begin, end, more)


def in_order(n):
    return [member("tensor.%d" % i, i, i + 1) for i in range(n)]


def matrix_dat(n):
    out = [struct.pack("<i", n)]
    for i in range(n):
        name = b"blk.%d.weight" % i
        out.append(struct.pack("<i", len(name)) + name + struct.pack("<iif", 1, 1, 1.0))
    return b"".join(out)


def matrix_gguf(n):
    keys = [("general.type", m.STRING, "imatrix"), ("imatrix.datasets", m.ARRAY, (m.STRING, ["text"])),
            ("imatrix.chunk_count", m.U32, 1), ("imatrix.chunk_size", m.U32, 512)]
    infos = []
    for i in range(n):
        infos += [("blk.%d.weight.counts" % i, 64 * i, (1, 1)), ("blk.%d.weight.in_sum2" % i, 64 * i + 32, (8, 1))]
    return gguf(keys, infos, struct.pack("<16f", *[1.0] * 16) * n)


def split(n):
    files = {}
    for i in range(n):
        keys = [("split.no", m.U16, i), ("split.count", m.U16, n), ("split.tensors.count", m.I32, n)]
        files["s-%05d-of-%05d.gguf" % (i + 1, n)] = gguf(
            (ARCHITECTURE if i == 0 else []) + keys, [("t%d" % i, 0, (8,))], bytes(32))
    return files


def manifest(n):
    lines = ["sha256    %064x  in:tensor.%d.weight" % (i, i) for i in range(n)]
    return {"in": many_tensors(n), "manifest": "\n".join(lines).encode()}


def state(n):
    more = "".join(',"field%d":%d' % (i, i) for i in range(n))
    return ('{"format":"fucina.training_checkpoint","version":1,"step":1,"seed":1%s}' % more).encode()


def checkpoint(n):
    return {"ck/trainer_state.json": state(n), "ck/model.safetensors": safetensors(in_order(1), 1)}


def index(n):
    names = ['"tensor.%d":"s.safetensors"' % i for i in range(n)]
    return {"s.safetensors": safetensors(in_order(n), n),
            "m.safetensors.index.json": ('{"weight_map":{%s}}' % ",".join(names)).encode()}


def floats(tensors):
    """A safetensors file of f32: (name, shape)."""
    members, at = [], 0
    for name, shape in tensors:
        n = 4 * shape[0] * shape[1]
        members.append('"%s":{"dtype":"F32","shape":[%d,%d],"data_offsets":[%d,%d]}' % (name, *shape, at, at + n))
        at += n
    return safetensors(members, 0) + struct.pack("<f", 0.5) * (at // 4)


def adapter(base, tensors, config=""):
    return {"in": base, "ad/adapter_model.safetensors": floats(tensors),
            "ad/adapter_config.json": ('{"peft_type":"LORA","lora_alpha":1%s}' % config).encode()}


def pairs(n):
    tensors = []
    for i in range(n):
        module = "model.layers.%d.self_attn.v_proj." % i
        tensors += [(module + "lora_A.weight", (1, 8)), (module + "lora_B.weight", (4, 1))]
    infos = [("blk.%d.attn_v.weight" % i, 128 * i, (8, 4)) for i in range(n)]
    return adapter(gguf(ARCHITECTURE, infos, bytes(128 * n)), tensors)


def experts(n):
    keys = [("general.architecture", m.STRING, "qwen3moe"), ("qwen3moe.expert_count", m.U32, n)]
    base = gguf(keys, [("blk.0.ffn_down_exps.weight", 0, (4, 8, n))], bytes(128 * n))
    return adapter(base, [("model.layers.0.mlp.experts.lora_A.weight", (n, 4)),
                          ("model.layers.0.mlp.experts.lora_B.weight", (8, n))],
                   ',"target_parameters":["mlp.experts.down_proj"]')


# --- the table --------------------------------------------------------------------------------------
# name, arguments, exit status, n, input of n parts: bytes of the file "in", or a dictionary of files

ROWS = [
    ("gguf keys", "verify in", 0, 1000, lambda n: gguf([("key.%d" % i, m.U32, i) for i in range(n)], [])),
    ("gguf keys that begin alike", "verify in", 0, 500,
     lambda n: gguf([("k" * 200 + "%08d" % i, m.U32, i) for i in range(n)], [])),
    ("gguf a key again at the end", "verify in", 1, 1000,
     lambda n: gguf([("key.%d" % (i % (n - 1)), m.U32, i) for i in range(n)], [])),
    ("gguf tensors", "verify -t 1 in", 0, 500, many_tensors),
    ("gguf tensors, every other one whole numbers", "verify -t 1 in", 0, 250,
     lambda n: gguf([], [("t%d" % i, 32 * i, (8,), 26 * (i % 2)) for i in range(n)], bytes(32 * n))),
    ("gguf tensors, listed", "inspect --full in", 0, 250, many_tensors),
    ("gguf tensors as JSON", "inspect --json in", 0, 500, many_tensors),
    ("gguf names that begin alike", "verify --quick in", 0, 500,
     lambda n: many_tensors(n, name="t" * 200 + "%08d")),
    ("gguf names of control characters", "inspect --full in", 0, 250,
     lambda n: many_tensors(n, name="\x1b[2J\u202e" * 8 + "%d")),
    ("gguf tensors backwards", "verify --quick in", 0, 500,
     lambda n: gguf([], reordered(plain(n), list.reverse), bytes(32 * n))),
    ("gguf tensors shuffled", "verify --quick in", 0, 500,
     lambda n: gguf([], reordered(plain(n), shuffled), bytes(32 * n))),
    ("gguf tensors that all overlap", "verify --quick in", 1, 500,
     lambda n: gguf([], [("t%d" % i, 0, (8,)) for i in range(n)], bytes(32))),
    ("gguf empty tensors in one place", "verify --quick in", 0, 500,
     lambda n: gguf([], [("t%d" % i, 0, (0,)) for i in range(n)])),
    ("gguf gaps between all tensors", "verify --quick in", 0, 500,
     lambda n: gguf([], [("t%d" % i, 64 * i, (8,)) for i in range(n)], bytes(64 * n))),
    ("gguf padding that is not zero", "verify --quick in", 0, 500,
     lambda n: gguf([], [("t%d" % i, 32 * i, (7,)) for i in range(n)], b"\x01\x00\x00\x00" * 8 * n)),
    ("gguf a tensor again at the end", "verify --quick in", 1, 500,
     lambda n: gguf([], [("t%d" % (i % (n - 1)), 32 * i, (8,)) for i in range(n)], bytes(32 * n))),
    ("gguf tensors that are all cut off", "inspect --full in", 1, 500,
     lambda n: gguf([], [("t%d" % i, 32 * i, (8,)) for i in range(n)])),
    ("gguf strings in an array", "verify in", 0, 2000,
     lambda n: gguf([("a", m.ARRAY, (m.STRING, ["token%d" % i for i in range(n)]))], [])),
    ("gguf arrays in an array", "verify in", 0, 2000,
     lambda n: gguf([("a", m.ARRAY, (m.ARRAY, [(m.U32, [1])] * n))], [])),
    ("gguf odd booleans", "verify in", 0, 2000,
     lambda n: gguf([("a", m.ARRAY, (m.BOOL, [2] * n))], [])),
    ("gguf a long string", "inspect --full in", 0, 20000, lambda n: gguf([("a", m.STRING, "\x01" * n)], [])),
    ("gguf shards", "verify s-00001-of-%05d.gguf", 0, 8, split),
    ("safetensors tensors", "verify -t 1 in", 0, 500, lambda n: safetensors(in_order(n), n)),
    ("safetensors tensors backwards", "verify --quick in", 0, 500,
     lambda n: safetensors(in_order(n)[::-1], n)),
    ("safetensors empty tensors in one place", "verify --quick in", 0, 500,
     lambda n: safetensors([member("t%d" % i, 0, 0) for i in range(n)], 0)),
    ("safetensors overlaps", "verify --quick in", 1, 500,
     lambda n: safetensors([member("t%d" % i, 0, 1) for i in range(n)], 1)),
    ("safetensors a tensor again at the end", "verify --quick in", 1, 500,
     lambda n: safetensors([member("t%d" % (i % (n - 1)), i, i + 1) for i in range(n)], n)),
    ("safetensors escapes in a name", "verify --quick in", 0, 2000,
     lambda n: safetensors([member("\\u00e4" * n, 0, 1)], 1)),
    ("safetensors metadata", "verify --quick in", 0, 1000,
     lambda n: safetensors(['"__metadata__":{%s}' % ",".join('"k%d":"v"' % i for i in range(n))], 0)),
    ("safetensors unknown fields", "verify --quick in", 0, 1000,
     lambda n: safetensors([member("t", 0, 1, "".join(',"f%d":[[]]' % i for i in range(n)))], 1)),
    ("safetensors brackets without end", "verify --quick in", 1, 4000,
     lambda n: safetensors(['"t":' + "[" * n], 0)),
    ("safetensors white space", "verify --quick in", 0, 20000, lambda n: safetensors([" " * n], 0)),
    ("safetensors index", "verify --quick m.safetensors.index.json", 0, 500, index),
    ("imatrix .dat entries", "verify --imatrix in", 0, 500, matrix_dat),
    ("imatrix GGUF entries", "verify in", 0, 250, matrix_gguf),
    ("manifest lines", "hash -t 1 --check manifest in", 1, 250, manifest),
    ("digests", "hash -t 1 in", 0, 250, many_tensors),
    ("a name that is not there", "extract in tensor.x.weight out", 1, 1000, many_tensors),
    ("quantize plan", "quantize --dry-run in out Q8_0", 0, 250, many_tensors),
    ("export plan", "export --dry-run --from-gguf in --out out", 0, 250, many_tensors),
    ("recipe lines", "quantize --dry-run --allow-unmatched --recipe recipe in out F16", 0, 250,
     lambda n: {"in": many_tensors(1), "recipe": b"".join(b"name%d = q8_0\n" % i for i in range(n))}),
    ("adapter pairs", "export -q -t 1 --from-gguf in --out out --adapters ad", 0, 100, pairs),
    ("adapter experts in one pair", "export -q -t 1 --from-gguf in --out out --adapters ad", 0, 1000, experts),
    ("trainer state fields", "checkpoint verify ck", 0, 1000, checkpoint),
]


def count(quench, row, n, folder):
    """Instructions of the run."""
    name, args, status, _, make = row
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    files = make(n)
    for path, data in (files if isinstance(files, dict) else {"in": files}).items():
        path = pathlib.Path(folder, path)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    if "%" in args:
        args %= n
    done = subprocess.run(
        ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
         f"--log-file={folder}/log", quench] + args.split(),
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
    if done.returncode != status:
        sys.exit(f"{name}: exit status {done.returncode}, not {status}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    found = re.search(r"I +refs: +([\d,]+)", pathlib.Path(folder, "log").read_text())
    return int(found.group(1).replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quench", required=True)
    parser.add_argument("--only", help="rows whose name contains this")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not there; run scripts/setup.sh full")
        return 77
    quench = str(pathlib.Path(options.quench).resolve())
    n_wrong = n_rows = 0
    print(f"{'input':<42} {'n':>6} {'instructions a part':>20} {'growth':>7}")
    with tempfile.TemporaryDirectory() as temporary:
        for row in ROWS:
            if options.only and options.only not in row[0]:
                continue
            n = row[3]
            one, two, four = (count(quench, row, k * n, os.path.join(temporary, "run")) for k in (1, 2, 4))
            is_wrong = four - two > MOST * max(two - one, 0) + NOISE
            growth = f"{(four - two) / (two - one):.2f}" if two - one > NOISE else "none"
            n_wrong += is_wrong
            n_rows += 1
            print(f"{row[0]:<42} {n:>6} {(four - two) / (2 * n):>20,.0f} {growth:>7}"
                  + ("  WRONG: more than linear" if is_wrong else ""), flush=True)
    print(f"{n_rows - n_wrong} passed, {n_wrong} failed")
    return 1 if n_wrong or not n_rows else 0


if __name__ == "__main__":
    sys.exit(main())
