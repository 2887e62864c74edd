#!/usr/bin/env python3
"""The official Python gguf package and ggml against the gguf room, on 300 generated files and a model.

usage: gguf_files.py GGUF_TOOL LIBGGML_FOLDER WORK_FOLDER [MODEL.gguf] [--files N] [--seed S]

For every file, made from the seed by the package's own writer: our description of it is what was put
in; our canonical and typed rewrites read back through the package with the same contents; ggml's
reader takes them; the lossless rewrite is the same bytes. Some files are written as shards, some of
ours are split, and both sides merge. Exit status 77, and said so, when the package is not there.
"""
import argparse
import ctypes
import glob
import os
import random
import shutil
import struct
import subprocess
import sys

try:
    import numpy as np
    from gguf import GGMLQuantizationType as Q
    from gguf import GGUFReader, GGUFValueType as V, GGUFWriter
    from gguf.constants import GGML_QUANT_SIZES
except ImportError as why:
    print("skipped: no official gguf package (%s)" % why)
    sys.exit(77)

ALPHABETS = ["abcdefghij_", "абвгдежз", "模型權重層", "αβγδ", "שלום", "🦙🧪é", "ひらがな"]
RANGES = {V.UINT8: (0, 2**8 - 1), V.INT8: (-2**7, 2**7 - 1), V.UINT16: (0, 2**16 - 1), V.INT16: (-2**15, 2**15 - 1),
          V.UINT32: (0, 2**32 - 1), V.INT32: (-2**31, 2**31 - 1), V.UINT64: (0, 2**64 - 1), V.INT64: (-2**63, 2**63 - 1)}
NAMES = {V.UINT8: "u8", V.INT8: "i8", V.UINT16: "u16", V.INT16: "i16", V.UINT32: "u32", V.INT32: "i32", V.FLOAT32: "f32",
         V.BOOL: "bool", V.STRING: "string", V.ARRAY: "array", V.UINT64: "u64", V.INT64: "i64", V.FLOAT64: "f64"}
# q8_1 is left out: the package takes its blocks to be 40 bytes, ggml 36
DTYPES = [t for t in Q if t != Q.Q8_1]


def digest(raw):
    b = np.frombuffer(raw, dtype=np.uint8).astype(np.uint64)
    return int((b * (np.arange(len(b), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))).sum())


def word(rng, n):
    return "".join(rng.choice(rng.choice(ALPHABETS)) for _ in range(n))


def scalar(rng, t):
    if t in RANGES:
        low, high = RANGES[t]
        return rng.choice([low, high, 0 if low <= 0 else low, rng.randint(low, high)])
    if t == V.BOOL:
        return rng.random() < 0.5
    if t == V.STRING:
        return word(rng, rng.randrange(1, 12))
    value = rng.choice([0.0, -1.5, rng.gauss(0, 1e3), 1e30, 2.0**-130])
    return struct.unpack("<f", struct.pack("<f", value))[0] if t == V.FLOAT32 else value


def make_model(rng):
    """(entries, tensors): entries (key, type, element type, value), tensors (name, dtype, ne, bytes)."""
    kvs, seen = [], set()
    for _ in range(rng.randrange(0, 24)):
        key = word(rng, rng.randrange(1, 20))
        if key in seen or key.startswith("general."):
            continue
        seen.add(key)
        t = rng.choice([t for t in V if t != V.ARRAY] + [V.ARRAY] * 4)
        if t == V.ARRAY:
            et = rng.choice([t for t in V if t != V.ARRAY])
            kvs.append((key, t, et, [scalar(rng, et) for _ in range(rng.randrange(1, 9))]))
        else:
            kvs.append((key, t, None, scalar(rng, t)))
    tensors, seen = [], set()
    for _ in range(rng.randrange(0, 9)):
        name = word(rng, rng.randrange(1, 12))
        if name in seen:
            continue
        seen.add(name)
        dtype = rng.choice(DTYPES)
        block, n_block = GGML_QUANT_SIZES[dtype]
        # the package's reader fails on a bf16 scalar
        rank = rng.randrange(0 if block == 1 and dtype != Q.BF16 else 1, 5)
        ne = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
        if rank:
            ne[0] = block * rng.randrange(1, 4)
        n = 1
        for d in ne:
            n *= d
        tensors.append((name, dtype, ne, rng.randbytes(n // block * n_block)))
    return kvs, tensors


def write_with_package(path, kvs, tensors, rng, per_shard=0):
    w = GGUFWriter(path, "llama", split_max_tensors=per_shard)
    alignment = rng.choice([0, 0, 0, 8, 64, 256])
    if alignment and not per_shard:
        w.add_custom_alignment(alignment)
    for key, t, et, value in kvs:
        w.add_key_value(key, value, t, et)
    for name, dtype, ne, raw in tensors:
        block, n_block = GGML_QUANT_SIZES[dtype]
        # the package turns a byte shape of a quantized tensor into its element shape
        shape = list(reversed(ne))
        if block > 1:
            shape[-1] = ne[0] // block * n_block
            w.add_tensor(name, np.frombuffer(raw, dtype=np.uint8).reshape(shape), raw_dtype=dtype)
        else:
            kind = {4: np.float32, 2: np.int16, 1: np.int8, 8: np.int64}[n_block]
            w.add_tensor(name, np.frombuffer(raw, dtype=kind).reshape(shape), raw_dtype=dtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return alignment if not per_shard else 0


def show(t, et, value):
    if t == V.ARRAY:
        return "[" + NAMES[et] + "".join(" " + show(et, None, x) for x in value) + "]"
    if t in RANGES:
        return "%d" % value
    if t == V.BOOL:
        return "true" if value else "false"
    if t == V.STRING:
        return "s" + value.encode().hex()
    return "f%016x" % struct.unpack("<Q", struct.pack("<d", value))[0]


def expected_text(kvs, tensors):
    out = ["kv %s %s %s" % (k.encode().hex(), NAMES[t], show(t, et, v)) for k, t, et, v in kvs]
    out += ["tensor %s %d [%s] %016x" % (n.encode().hex(), int(d), " ".join(map(str, ne)), digest(raw)) for n, d, ne, raw in tensors]
    return sorted(out)


def described(tool, path, ignore):
    text = subprocess.run([tool, "describe", path], capture_output=True, check=True).stdout.decode()
    return sorted(x for x in text.splitlines() if x.split()[1] not in ignore)


def read_with_package(path):
    """The same notation from the package's reader."""
    r = GGUFReader(path)
    out = []
    for field in r.fields.values():
        if field.name.startswith("GGUF."):
            continue
        t = field.types[0]
        if t == V.ARRAY:
            et = field.types[-1]
            value = field.contents()
            value = value if isinstance(value, list) else [value]
            out.append((field.name, show(t, et, value if len(field.data) else []), NAMES[t]))
        else:
            out.append((field.name, show(t, None, field.contents()), NAMES[t]))
    text = ["kv %s %s %s" % (n.encode().hex(), t, v) for n, v, t in out]
    for t in r.tensors:
        ne = [int(x) for x in t.shape]
        text.append("tensor %s %d [%s] %016x" % (t.name.encode().hex(), int(t.tensor_type), " ".join(map(str, ne)), digest(t.data.tobytes())))
    return sorted(text)


class Ggml:
    """ggml's own reader, metadata only, as llama.cpp's loader uses it."""

    class Params(ctypes.Structure):
        _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]

    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
        self.lib.gguf_init_from_file.restype = ctypes.c_void_p
        self.lib.gguf_init_from_file.argtypes = [ctypes.c_char_p, Ggml.Params]
        self.lib.gguf_get_n_tensors.restype = ctypes.c_int64
        self.lib.gguf_get_n_tensors.argtypes = [ctypes.c_void_p]
        self.lib.gguf_free.argtypes = [ctypes.c_void_p]

    def n_tensors(self, path):
        g = self.lib.gguf_init_from_file(path.encode(), Ggml.Params(True, None))
        if not g:
            return -1
        n = self.lib.gguf_get_n_tensors(g)
        self.lib.gguf_free(g)
        return n


def same(what, a, b):
    if a != b:
        only_a = [x for x in a if x not in b][:3]
        only_b = [x for x in b if x not in a][:3]
        raise AssertionError("%s differ: %r against %r" % (what, only_a, only_b))


def check_file(tool, ggml, folder, number, rng):
    kvs, tensors = make_model(rng)
    path = os.path.join(folder, "a.gguf")
    out = os.path.join(folder, "b.gguf")
    alignment = write_with_package(path, kvs, tensors, rng)
    full = [("general.architecture", V.STRING, None, "llama")] + kvs
    if alignment:
        full.append(("general.alignment", V.UINT32, None, alignment))
    want = expected_text(full, tensors)
    same("our description of the package's file and what was put in", described(tool, path, ()), want)
    same("the package's own reading and what was put in", read_with_package(path), want)
    for mode in ("canonical", "typed"):
        subprocess.run([tool, mode, path, out], check=True)
        same("the package's reading of our %s file and what was put in" % mode, read_with_package(out), want)
        if ggml and ggml.n_tensors(out) != len(tensors):
            raise AssertionError("ggml refuses our %s file" % mode)
    subprocess.run([tool, "lossless", path, out], check=True)
    with open(path, "rb") as a, open(out, "rb") as b:
        if a.read() != b.read():
            raise AssertionError("the lossless file has other bytes")
    if number % 4 == 0 and len(tensors) >= 2:
        check_shards(tool, ggml, folder, kvs, tensors, rng)


def check_shards(tool, ggml, folder, kvs, tensors, rng):
    """Shards by the package, merged by us; our shards, each read by the package."""
    split_keys = {k.encode().hex() for k in ("split.no", "split.count", "split.tensors.count")}
    full = [("general.architecture", V.STRING, None, "llama")] + kvs
    want = expected_text(full, tensors)
    write_with_package(os.path.join(folder, "s.gguf"), kvs, tensors, rng, per_shard=1)
    theirs = sorted(glob.glob(os.path.join(folder, "s-*-of-*.gguf")))
    named = rng.choice(theirs)
    same("the package's shards, merged, and what was put in", described(tool, named, split_keys), want)
    whole = os.path.join(folder, "a.gguf")
    write_with_package(whole, kvs, tensors, random.Random(3), per_shard=0)
    subprocess.run([tool, "canonical", named, whole], check=True)
    same("the merged file and what was put in", read_with_package(whole), want)
    subprocess.run([tool, "split", whole, os.path.join(folder, "o"), "1"], check=True)
    ours = sorted(glob.glob(os.path.join(folder, "o-*-of-*.gguf")))
    got = []
    for i, shard in enumerate(ours):
        if ggml and ggml.n_tensors(shard) != 1:
            raise AssertionError("ggml refuses our shard %s" % shard)
        text = read_with_package(shard)
        keys = {x.split()[1]: x.split()[2:] for x in text if x.startswith("kv")}
        assert keys["split.no".encode().hex()] == ["u16", str(i)]
        assert keys["split.count".encode().hex()] == ["u16", str(len(tensors))]
        assert keys["split.tensors.count".encode().hex()] == ["i32", str(len(tensors))]
        got += [x for x in text if x.split()[1] not in split_keys]
    same("our shards together and what was put in", sorted(got), want)
    same("our shards merged by us and what was put in", described(tool, rng.choice(ours), split_keys), want)


def check_model(tool, ggml, folder, path):
    """A real model: the same reading on both sides, and its own bytes back."""
    same("our description of the model and the package's reading", described(tool, path, ()), read_with_package(path))
    out = os.path.join(folder, "model.gguf")
    for mode in ("lossless", "canonical"):
        subprocess.run([tool, mode, path, out], check=True)
        if ggml and ggml.n_tensors(out) <= 0:
            raise AssertionError("ggml refuses our %s model" % mode)
        if mode == "lossless" and subprocess.run(["cmp", "-s", path, out]).returncode != 0:
            raise AssertionError("the lossless model has other bytes")
    os.remove(out)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("tool"), ap.add_argument("libggml"), ap.add_argument("folder"), ap.add_argument("model", nargs="?")
    ap.add_argument("--files", type=int, default=300)
    ap.add_argument("--seed", type=int, default=20261130)
    a = ap.parse_args()
    try:
        ggml = Ggml(a.libggml)
    except OSError as why:
        print("note: no ggml here, its reader is left out (%s)" % why)
        ggml = None
    shutil.rmtree(a.folder, ignore_errors=True)
    for i in range(a.files):
        folder = os.path.join(a.folder, "%03d" % i)
        os.makedirs(folder)
        try:
            check_file(a.tool, ggml, folder, i, random.Random(a.seed + i))
        except (AssertionError, subprocess.CalledProcessError) as why:
            print("file %d of seed %d (kept in %s): %s" % (i, a.seed, folder, why))
            return 1
        shutil.rmtree(folder)
    print("%d files: the same on both sides" % a.files)
    if a.model and os.path.exists(a.model):
        check_model(a.tool, ggml, a.folder, a.model)
        print("%s: the same on both sides" % os.path.basename(a.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
