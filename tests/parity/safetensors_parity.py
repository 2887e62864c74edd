#!/usr/bin/env python3
"""safetensors_parity.py LIBQUENCH [--seed N] [--files N] [--model FILE] — the official package and quench
read each other, byte for byte.

Random files of all types, ranks, scalars, empty tensors and names in several scripts: what the
package serializes, quench reads and writes again with equal bytes; what quench writes of the types
that the package cannot serialize, the package reads. Then one real model, both ways. Exit 77 where
the package is not installed.
"""
import argparse
import ctypes as C
import os
import random
import sys
import tempfile

try:
    from safetensors import TensorSpec, deserialize, serialize
except ImportError:
    print("skipped: the Python package safetensors is not installed; run scripts/setup.sh test")
    sys.exit(77)

TAGS = ["BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
        "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"]
BITS = [8, 4, 6, 6, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 64, 64, 64, 64]
PACKAGE = {"BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
           "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
           "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16", "F16": "float16",
           "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64",
           "F64": "float64", "I64": "int64", "U64": "uint64"}


class Tensor(C.Structure):
    _fields_ = [("name", C.POINTER(C.c_char)), ("n_name", C.c_int64), ("dtype", C.c_int), ("rank", C.c_int32),
                ("shape", C.POINTER(C.c_int64)), ("n_elems", C.c_int64), ("n_bytes", C.c_int64),
                ("file_offset", C.c_int64), ("shard", C.c_int32), ("data", C.c_void_p)]


class Entry(C.Structure):
    _fields_ = [("key", C.POINTER(C.c_char)), ("n_key", C.c_int64), ("value", C.POINTER(C.c_char)),
                ("n_value", C.c_int64)]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("sys_errno", C.c_int), ("offset", C.c_int64), ("tensor_index", C.c_int64),
                ("path", C.c_char * 512), ("message", C.c_char * 768)]


class Quench:
    def __init__(self, path):
        self.lib = lib = C.CDLL(path)
        lib.qn_safetensors_n_tensors.restype = C.c_int64
        lib.qn_safetensors_n_entries.restype = C.c_int64
        lib.qn_safetensors_entry_at.restype = C.POINTER(Entry)
        lib.qn_safetensors_tensor_at.restype = C.c_bool
        for name in ("qn_safetensors_close", "qn_safetensors_writer_free"):
            getattr(lib, name).restype = None

    def check(self, status, err):
        if status != 0:
            raise RuntimeError(err.message.decode())

    def read(self, opener, *args):
        """-> (metadata, {name: (tag, shape, bytes)}) in the file's order."""
        lib, st, err = self.lib, C.c_void_p(), Error()
        self.check(getattr(lib, opener)(*args, None, C.byref(st), C.byref(err)), err)
        metadata, tensors = {}, {}
        for i in range(lib.qn_safetensors_n_entries(st)):
            e = lib.qn_safetensors_entry_at(st, C.c_int64(i)).contents
            metadata[e.key[:e.n_key].decode()] = e.value[:e.n_value].decode()
        for i in range(lib.qn_safetensors_n_tensors(st)):
            t = Tensor()
            assert lib.qn_safetensors_tensor_at(st, C.c_int64(i), C.byref(t))
            tensors[t.name[:t.n_name].decode()] = (TAGS[t.dtype], [t.shape[k] for k in range(t.rank)],
                                                   C.string_at(t.data, t.n_bytes) if t.n_bytes else b"")
        lib.qn_safetensors_close(st)
        return metadata, tensors

    def write(self, metadata, tensors, path=None):
        lib, w, err, keep = self.lib, C.c_void_p(), Error(), []
        self.check(lib.qn_safetensors_writer_new(None, C.byref(w), C.byref(err)), err)
        for key, value in metadata.items():
            k, v = key.encode(), value.encode()
            self.check(lib.qn_safetensors_writer_add_entry(w, k, C.c_int64(len(k)), v, C.c_int64(len(v)), C.byref(err)), err)
        for name, (tag, shape, data) in tensors.items():
            n = name.encode()
            keep.append(C.create_string_buffer(data, max(len(data), 1)))
            self.check(lib.qn_safetensors_writer_add(w, n, C.c_int64(len(n)), TAGS.index(tag), (C.c_int64 * max(len(shape), 1))(*shape),
                                                     C.c_int32(len(shape)), keep[-1], C.c_int64(len(data)), C.byref(err)), err)
        if path:
            self.check(lib.qn_safetensors_writer_save_atomic(w, path.encode(), C.byref(err)), err)
            out = None
        else:
            bytes_, n_bytes = C.c_void_p(), C.c_int64()
            self.check(lib.qn_safetensors_writer_finish(w, C.byref(bytes_), C.byref(n_bytes), C.byref(err)), err)
            out = C.string_at(bytes_, n_bytes.value)
        lib.qn_safetensors_writer_free(w)
        return out


def package_write(tensors, metadata):
    keep, specs = [], {}
    for name, (tag, shape, data) in tensors.items():
        keep.append(C.create_string_buffer(data, max(len(data), 1)))
        shape = list(shape)
        if tag == "F4":
            shape[-1] //= 2  # the package counts pairs here
        specs[name] = TensorSpec(dtype=PACKAGE[tag], shape=shape, data_ptr=C.addressof(keep[-1]), data_len=len(data))
    return bytes(serialize(specs, metadata=metadata or None))


ALPHABETS = ["abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437",
             "\u4e00\u4e8c\u4e09\u56db\u4e94", "\u0627\u0644\u0648\u0632\u0646", "\u3042\u3044\u3046\u30a8\u30aa",
             "\U0001f999\U0001f680\u00e9\u00fc\u00df", "\"\\/\b\f\n\r\t\x01\x1f\x7f\0 ", "\u0915\u0916\u0917\u0e01\u0e02"]


def random_name(rng):
    return "".join(rng.choice(rng.choice(ALPHABETS)) for _ in range(rng.randrange(1, 24)))


def random_file(rng, tags):
    tensors = {}
    for _ in range(rng.randrange(0, 24)):
        tag = rng.choice(tags)
        bits = BITS[TAGS.index(tag)]
        shape = [rng.choice([0, 1, 1, 2, 3, 4, 5, 7]) for _ in range(rng.choice([0, 0, 1, 1, 2, 2, 3, 4, 5, 9]))]
        if bits < 8:
            shape = (shape or [1])[:-1] + [4 * rng.randrange(0, 4)]
        n = bits
        for d in shape:
            n *= d
        tensors[random_name(rng)] = (tag, shape, rng.randbytes(n // 8))
    metadata = {random_name(rng): random_name(rng) for _ in range(rng.randrange(0, 4))}
    return metadata, tensors


def same_as_package(tensors, raw):
    theirs = {name: (v["dtype"], list(v["shape"]), bytes(v["data"])) for name, v in deserialize(raw)}
    return theirs == {name: (tag, list(shape), data) for name, (tag, shape, data) in tensors.items()}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("library")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--files", type=int, default=300)
    ap.add_argument("--model", default="")
    a = ap.parse_args()
    q, rng, failed = Quench(a.library), random.Random(a.seed), 0
    n_tensors, n_equal = 0, 0
    for i in range(a.files):
        metadata, tensors = random_file(rng, sorted(PACKAGE) if i % 3 else TAGS)
        n_tensors += len(tensors)
        can_package = all(tag in PACKAGE for tag, _, _ in tensors.values())
        why = []
        if can_package:
            raw = package_write(tensors, metadata)
            got_metadata, got = q.read("qn_safetensors_parse", raw, C.c_int64(len(raw)))
            if got != {n: (t, list(s), d) for n, (t, s, d) in tensors.items()} or got_metadata != metadata:
                why.append("we read the package's file differently")
            # the order of several metadata entries is the package's own, at random: ours is that of adding
            ours = q.write(got_metadata, dict(rng.sample(sorted(tensors.items()), len(tensors))))
            if ours != raw:
                why.append("our bytes differ from the package's")
            n_equal += 1
        ours = q.write(metadata, tensors)
        if not same_as_package(tensors, ours):
            why.append("the package reads our file differently")
        got_metadata, got = q.read("qn_safetensors_parse", ours, C.c_int64(len(ours)))
        if got_metadata != metadata or list(got_metadata) != list(metadata):
            why.append("metadata changed")
        if why:
            failed += 1
            print("file %d of seed %d: %s" % (i, a.seed, "; ".join(why)))
    print("%d files of %d tensors, %d of them compared byte for byte with the package, seed %d: %d failed"
          % (a.files, n_tensors, n_equal, a.seed, failed))
    if a.model and os.path.exists(a.model):
        failed += compare_model(q, a.model)
    elif a.model:
        print("not compared: %s is not there; run scripts/setup.sh test" % a.model)
    return 1 if failed else 0


def compare_model(q, path):
    with open(path, "rb") as f:
        raw = f.read()
    metadata, tensors = q.read("qn_safetensors_load_mmap", path.encode())
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.safetensors")
        q.write(metadata, tensors, out)
        with open(out, "rb") as f:
            ours = f.read()
    reads_alike = same_as_package(tensors, raw) and same_as_package(tensors, ours)
    writes_alike = ours == package_write(tensors, metadata)
    print("%s: %d tensors, read alike: %s, our bytes equal the package's: %s, equal to the file: %s"
          % (os.path.basename(path), len(tensors), reads_alike, writes_alike, ours == raw))
    return 0 if reads_alike and writes_alike else 1


if __name__ == "__main__":
    sys.exit(main())
