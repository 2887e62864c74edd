#!/usr/bin/env python3
"""Write a large F16 llama model of random weights, for jobs that must take a while.

usage: make_big_model.py OUT.gguf [--gib N] [--vocab N] [--seed S]

Rows are as long as in real models: 4096 and 14336; the embedding has 131,072 rows (1 GiB). Blocks are
added until the tensors take N GiB (2.2). The values are normal with a deviation of 0.02, an outlier now
and then, and depend on the seed only. The file is written as it is made, a few MiB at a time, and can be
quantized but not run. Needs NumPy (.deps/venv/bin/python has it).
"""
import argparse
import os
import struct
import sys

import numpy as np

EMBEDDING, FEED_FORWARD, ALIGNMENT = 4096, 14336, 32
F32, F16 = 0, 1
PIECE = 4 << 20  # elements made at a time


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def u32(key, value):
    return string(key) + struct.pack("<II", 4, value)


def tensors(n_bytes, vocab):
    """(name, dimensions, type) in the order of the file."""
    out = [("token_embd.weight", (EMBEDDING, vocab), F16), ("output_norm.weight", (EMBEDDING,), F32)]
    total, block = EMBEDDING * vocab * 2, 0
    while total < n_bytes or block == 0:
        for name, ne in (("attn_q", (EMBEDDING, EMBEDDING)), ("attn_k", (EMBEDDING, 1024)),
                         ("attn_v", (EMBEDDING, 1024)), ("attn_output", (EMBEDDING, EMBEDDING)),
                         ("ffn_gate", (EMBEDDING, FEED_FORWARD)), ("ffn_up", (EMBEDDING, FEED_FORWARD)),
                         ("ffn_down", (FEED_FORWARD, EMBEDDING)), ("attn_norm", (EMBEDDING,)),
                         ("ffn_norm", (EMBEDDING,))):
            out.append(("blk.%d.%s.weight" % (block, name), ne, F16 if len(ne) > 1 else F32))
            total += 2 * int(np.prod(ne))
        block += 1
    return out, block


def header(listed, n_blocks):
    keys = [string("general.architecture") + struct.pack("<I", 8) + string("llama"), u32("general.file_type", 1),
            u32("llama.block_count", n_blocks), u32("llama.context_length", 2048),
            u32("llama.embedding_length", EMBEDDING), u32("llama.feed_forward_length", FEED_FORWARD),
            u32("llama.attention.head_count", 32), u32("llama.attention.head_count_kv", 8),
            string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(keys)) + b"".join(keys)
    offset = 0
    for name, ne, dtype in listed:
        head += string(name) + struct.pack("<I%dQIQ" % len(ne), len(ne), *ne, dtype, offset)
        offset += -(-int(np.prod(ne)) * (4 if dtype == F32 else 2) // ALIGNMENT) * ALIGNMENT
    return head + bytes(-len(head) % ALIGNMENT)


def values(rng, n):
    x = rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)
    x[rng.integers(0, n, n // 1000 + 1)] *= np.float32(8)
    return x


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--gib", type=float, default=2.2)
    ap.add_argument("--vocab", type=int, default=131072)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    listed, n_blocks = tensors(int(a.gib * (1 << 30)), a.vocab)
    rng = np.random.default_rng(a.seed)
    with open(a.out + ".part", "wb") as f:
        f.write(header(listed, n_blocks))
        for _, ne, dtype in listed:
            n_left = int(np.prod(ne))
            while n_left > 0:
                n = min(n_left, PIECE)
                x = values(rng, n)
                f.write((x if dtype == F32 else x.astype(np.float16)).tobytes())
                n_left -= n
            f.write(bytes(-f.tell() % ALIGNMENT))
    os.replace(a.out + ".part", a.out)
    print("%s: %d bytes, %d tensors, %d blocks" % (a.out, os.path.getsize(a.out), len(listed), n_blocks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
