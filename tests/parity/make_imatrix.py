#!/usr/bin/env python3
"""Write an importance matrix for a GGUF model in both file forms, from a fixed seed.

usage: make_imatrix.py MODEL.gguf OUT.gguf OUT.dat [--skip SUBSTRING] [--scale-rows]

Every tensor of 2 or 3 dimensions whose name ends in "weight" gets an entry. Of each stacked tensor
the second expert has seen no token, so that both ways of saying so are used.
"""
import struct
import sys

import numpy as np
from gguf import GGUFReader, GGUFWriter

CHUNKS, CHUNK_SIZE = 7, 512


def entries(path, skip):
    rng = np.random.default_rng(5)
    out = []
    for t in sorted(GGUFReader(path).tensors, key=lambda t: t.name):
        ne = [int(x) for x in t.shape]
        if len(ne) < 2 or not t.name.endswith("weight") or (skip and skip in t.name):
            continue
        experts = ne[2] if len(ne) > 2 else 1
        sums = (rng.standard_normal((experts, ne[0])) ** 2 * 300).astype(np.float32)
        sums[:, ::17] *= np.float32(40)
        counts = np.full(experts, CHUNKS * CHUNK_SIZE, np.float32)
        if experts > 1:
            counts = np.array([CHUNKS * CHUNK_SIZE - 300 * e for e in range(experts)], np.float32)
            counts[1] = 0
        out.append((t.name, sums, counts))
    return out


def write_gguf(path, es):
    w = GGUFWriter(path, "imatrix")
    del w.kv_data[0]["general.architecture"]
    w.add_type("imatrix")
    w.add_array("imatrix.datasets", ["calibration.txt", "more.txt"])
    w.add_uint32("imatrix.chunk_count", CHUNKS)
    w.add_uint32("imatrix.chunk_size", CHUNK_SIZE)
    for name, sums, counts in es:
        w.add_tensor(name + ".in_sum2", sums)
        w.add_tensor(name + ".counts", counts.reshape(-1, 1))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_dat(path, es):
    with open(path, "wb") as f:
        f.write(struct.pack("<i", len(es)))
        for name, sums, counts in es:
            calls = int(-(-counts.max() // CHUNK_SIZE))
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = np.where(counts[:, None] > 0, sums / counts[:, None], 1).astype(np.float32)
            values = (mean * np.float32(calls)).astype("<f4").reshape(-1)
            raw = name.encode()
            f.write(struct.pack("<i", len(raw)) + raw + struct.pack("<ii", calls, len(values)))
            f.write(values.tobytes())
        dataset = b"calibration.txt"
        f.write(struct.pack("<ii", CHUNKS, len(dataset)) + dataset)


def main():
    skip = sys.argv[sys.argv.index("--skip") + 1] if "--skip" in sys.argv else None
    es = entries(sys.argv[1], skip)
    write_gguf(sys.argv[2], es)
    write_dat(sys.argv[3], es)


if __name__ == "__main__":
    main()
