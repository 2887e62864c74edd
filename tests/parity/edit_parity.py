#!/usr/bin/env python3
"""`quench edit` against the official Python gguf package.

usage: edit_parity.py --command FILE [--demo FILE.gguf] [--rounds N] [--seed N] [--work DIR]

Models with random keys of every type and random tensors are written with gguf.GGUFWriter, edited by the
command, and read with gguf.GGUFReader. What must be there is worked out here, from the lists that the
model was written from: keys in their order with their types and values, tensors in theirs with their bytes. A round
in three edits what another edit has made. Where the edits can be made in place they are, in two copies of the model:
the same keys and tensors must be there, but for quench.reserved, and the data where they were, or farther by what was
inserted. The demo model, if given, is edited once, and in place. Exit status 1 on a difference.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader, GGUFValueType as V, GGUFWriter, GGMLQuantizationType as Q

SCALARS = {"u8": V.UINT8, "i8": V.INT8, "u16": V.UINT16, "i16": V.INT16, "u32": V.UINT32, "i32": V.INT32,
           "u64": V.UINT64, "i64": V.INT64, "f32": V.FLOAT32, "f64": V.FLOAT64, "bool": V.BOOL, "string": V.STRING}
WORDS = ["", "a", "llama: 7B", "ünï", "two\nlines", "quo\"te", "back\\slash", "x" * 300, "u32:5", "[1]"]


class Key:
    """Name, type name ("u32", or "u32[]"), value."""

    def __init__(self, name, kind, value):
        self.name, self.kind, self.value = name, kind, value


def draw_scalar(r, kind):
    if kind == "string":
        return r.choice(WORDS)
    if kind == "bool":
        return r.random() < 0.5
    if kind == "f32":
        return float(np.float32(r.choice([0.0, -1.5, r.gauss(0, 1), r.gauss(0, 1) * 1e30])))
    if kind == "f64":
        return r.choice([0.0, 1e300, r.gauss(0, 1)])
    bits = int(kind[1:])
    low, high = (0, 2 ** bits - 1) if kind[0] == "u" else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    return r.choice([low, high, r.randint(low, high), r.randint(max(low, -9), 9)])


def draw_value(r):
    kind = r.choice(list(SCALARS))
    if r.random() < 0.3:
        return kind + "[]", [draw_scalar(r, kind) for _ in range(r.randint(1, 6))]
    return kind, draw_scalar(r, kind)


def as_text(kind, value):
    return value if kind == "string" else json.dumps(value, ensure_ascii=False)


def write_model(path, keys, tensors):
    writer = GGUFWriter(path, "llama")
    for key in keys[1:]:
        if key.kind.endswith("[]"):
            writer.add_key_value(key.name, key.value, V.ARRAY, SCALARS[key.kind[:-2]])
        else:
            writer.add_key_value(key.name, key.value, SCALARS[key.kind])
    for name, array in tensors:
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_model(path):
    reader = GGUFReader(path)
    keys = [(f.name, [t.name for t in f.types], f.contents()) for f in reader.fields.values()
            if not f.name.startswith("GGUF.")]
    tensors = [(t.name, t.tensor_type, [int(n) for n in t.shape], t.data.tobytes()) for t in reader.tensors]
    return keys, tensors


def type_names(kind):
    return ["ARRAY", SCALARS[kind[:-2]].name] if kind.endswith("[]") else [SCALARS[kind].name]


def expected(keys, tensors):
    types = {np.dtype("float32"): Q.F32, np.dtype("float16"): Q.F16, np.dtype("int8"): Q.I8}
    return ([(k.name, type_names(k.kind), k.value) for k in keys],
            [(n, types[a.dtype], list(reversed(a.shape)), a.tobytes()) for n, a in tensors])


def draw_model(r):
    keys = [Key("general.architecture", "string", "llama")]
    for i in range(r.randint(0, 12)):
        keys.append(Key(r.choice(["general.", "llama.", "k", "tokenizer.ggml."]) + str(i), *draw_value(r)))
    tensors = []
    for i in range(r.randint(1, 6)):
        shape = tuple(r.randint(1, 9) for _ in range(r.randint(1, 4)))
        dtype = r.choice(["float32", "float16", "int8"])
        raw = bytes(r.randrange(256) for _ in range(int(np.prod(shape)) * np.dtype(dtype).itemsize))
        tensors.append((f"blk.{i}.weight", np.frombuffer(raw, dtype).reshape(shape)))
    return keys, tensors


def edit(r, work, keys, tensors):
    """Options of the command, and what becomes of the lists."""
    keys = [Key(k.name, k.kind, k.value) for k in keys]
    tensors, args = list(tensors), []
    free = keys[1:]
    r.shuffle(free)
    for key in [free.pop() for _ in range(min(len(free), r.randint(0, 2)))]:
        args.append(("--remove", key.name))
        keys.remove(key)
    for key in [free.pop() for _ in range(min(len(free), r.randint(0, 2)))]:
        new = "renamed." + key.name
        args.append(("--rename", f"{key.name}={new}"))
        key.name = new
    for key in [k for k in keys[1:] if r.random() < 0.3]:
        if r.random() < 0.5 and not key.kind.endswith("[]"):
            key.value = draw_scalar(r, key.kind)  # keeps its type, unless the text begins with one
            prefix = "string:" if key.kind == "string" else ""
        else:
            key.kind, key.value = draw_value(r)
            prefix = key.kind + ":"
        args.append(("--set", f"{key.name}={prefix}{as_text(key.kind, key.value)}"))
    news = []
    for i in range(r.randint(0, 3)):
        kind, value = draw_value(r)
        name = f"new.{r.randrange(10 ** 9)}"
        keys.append(Key(name, kind, value))
        news.append(("--set", f"{name}={kind}:{as_text(kind, value)}"))
    if r.random() < 0.5:
        path = os.path.join(work, "template")
        text = "".join(r.choice("{}% \n'\"äx") for _ in range(r.randint(0, 2000)))
        with open(path, "w", newline="") as f:
            f.write(text)
        name = f"file.{r.randrange(10 ** 9)}"
        keys.append(Key(name, "string", text))
        news.append(("--set-file", f"{name}={path}"))
    if len(tensors) > 1 and r.random() < 0.5:
        args.append(("--remove-tensor", tensors.pop(r.randrange(len(tensors)))[0]))
    for i in range(len(tensors)):
        if r.random() < 0.3:
            name = "t" * r.randint(1, 50) + str(i)
            args.append(("--rename-tensor", f"{tensors[i][0]}={name}"))
            tensors[i] = (name, tensors[i][1])
    r.shuffle(args)  # kinds have an order of their own; within a kind, all of these are independent
    return args + news, keys, tensors


def run(command, args, src, out):
    flat = [text for pair in args for text in pair]
    return subprocess.run([command, "edit", "--quiet", *flat, src, out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)


def check(command, args, src, out, keys, tensors):
    got = run(command, args, src, out)
    if got.returncode != 0:
        return got.stderr
    strict = subprocess.run([command, "verify", "--strict", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if strict.returncode != 0 and "NaN" not in strict.stdout and "infinite" not in strict.stdout:
        return "verify --strict: " + strict.stdout
    want, have = expected(keys, tensors), read_model(out)
    for what, w, h in zip(("keys", "tensors"), want, have):
        if w != h:
            differ = next((p for p in zip(w, h) if p[0] != p[1]), (len(w), len(h)))
            return f"{what} differ: {str(differ)[:400]}"
    return None


def read_data(path):
    """Where the data begin, and all from there on."""
    offset = GGUFReader(path).data_offset
    with open(path, "rb") as f:
        f.seek(offset)
        return offset, f.read()


def check_in_place(command, args, src, out, keys, tensors):
    """None, or what is wrong with a copy of the model that the edits were made in."""
    shutil.copyfile(src, out)
    at, data = read_data(src)
    flat = [text for pair in args for text in pair]
    got = subprocess.run([command, "edit", "--json", "--in-place", *flat, out], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if got.returncode == 1 and "this file system inserts none" in got.stderr:
        with open(src, "rb") as f, open(out, "rb") as g:
            return None if f.read() == g.read() else "refused, and changed"
    if got.returncode != 0:
        return got.stderr
    told = json.loads(got.stdout)
    if read_data(out) != (at + told["inserted_bytes"], data) or told["header_bytes"] != at + told["inserted_bytes"]:
        return "the data are not where they were"
    have_keys, have = read_model(out)
    spare = [k for k in have_keys if k[0] == "quench.reserved"]
    want_keys, want = expected(keys, tensors)
    if [k for k in have_keys if k[0] != "quench.reserved"] != want_keys or have != want:
        return "keys or tensors differ"
    if spare != ([("quench.reserved", ["STRING"], " " * told["reserved_bytes"])] if spare else []):
        return "the bytes kept are %s, told were %d" % (spare, told["reserved_bytes"])
    return "a journal stays" if os.path.exists(out + ".quench-patch") else None


def check_demo(command, demo, work):
    out = os.path.join(work, "demo.gguf")
    got = run(command, [("--set", "general.name=Edited"), ("--remove", "general.license")], demo, out)
    if got.returncode != 0:
        return got.stderr
    (was_keys, was), (keys, now) = read_model(demo), read_model(out)
    if was != now:
        return "tensors differ"
    want = [(n, t, "Edited" if n == "general.name" else v) for n, t, v in was_keys if n != "general.license"]
    if keys != want:
        return "keys differ"
    shutil.copyfile(demo, out)
    for name in ("a", "b" * 5000, "Edited"):
        got = subprocess.run([command, "edit", "--quiet", "--in-place", "--set", "general.name=" + name, out],
                             stderr=subprocess.PIPE, text=True)
        if got.returncode != 0 and "inserts none" not in got.stderr:
            return got.stderr
    keys, now = read_model(out)
    want = [(n, t, "Edited" if n == "general.name" else v) for n, t, v in was_keys]
    return None if [k for k in keys if k[0] != "quench.reserved"] == want and now == was else "in place: differs"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--command", required=True)
    ap.add_argument("--demo")
    ap.add_argument("--rounds", type=int, default=150)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--work")
    a = ap.parse_args()
    n_failed = n_edits = n_in_place = 0
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        src, out, again = (os.path.join(work, n) for n in ("in.gguf", "out.gguf", "again.gguf"))
        for i in range(a.rounds):
            r = random.Random(a.seed * 1000003 + i)
            keys, tensors = draw_model(r)
            write_model(src, keys, tensors)
            args, keys, tensors = edit(r, work, keys, tensors)
            if not args:
                continue
            wrong = check(a.command, args, src, out, keys, tensors)
            if wrong is None and not any(option == "--remove-tensor" for option, _ in args):
                wrong = check_in_place(a.command, args, src, again, keys, tensors)
                n_in_place += 1
            if wrong is None and i % 3 == 0:
                more, keys, tensors = edit(r, work, keys, tensors)
                wrong = check(a.command, more, out, again, keys, tensors) if more else None
                n_edits += len(more)
            n_edits += len(args)
            if wrong is not None:
                n_failed += 1
                print(f"round {i} of seed {a.seed}: {wrong}\n  {args}")
        if a.demo:
            wrong = check_demo(a.command, a.demo, work)
            n_failed += wrong is not None
            print("demo model:", wrong or "equal")
    print(f"{a.rounds} models, {n_edits} edits, {n_in_place} models in place, {n_failed} differ")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
