#!/usr/bin/env python3
"""safetensors_open.py [FILE...] — open files with quench and with the official Rust crate in turn, five
rounds, and print the ratio of the best times. Without FILE: a made file of 20,000 tensors.

Builds bench/rust-safetensors with cargo (pinned by its Cargo.lock) the first time."""
import json
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS = 5


def make(path, n):
    kinds = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm",
             "ffn_norm", "ffn_gate_inp"]
    header = {"__metadata__": {"format": "pt"}}
    for i in range(n):
        name = "model.layers.blk.%d.%s.%d.weight" % (i // 1000, kinds[i % 10], i % 1000 // 10)
        header[name] = {"dtype": "F32", "shape": [1, 32], "data_offsets": [i * 128, i * 128 + 128]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + n * 128)


def best(program, path):
    out = subprocess.run([program, "1", path], check=True, capture_output=True, text=True).stdout
    fields = out.split("\t")
    return float(fields[0]), int(fields[2])


def main():
    files = sys.argv[1:]
    if files and files[0].startswith("-"):
        print(__doc__)
        return 2
    target = os.path.join(ROOT, "build", "rust-safetensors")
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target],
                   cwd=os.path.join(ROOT, "bench", "rust-safetensors"), check=True)
    rust = os.path.join(target, "release", "bench-safetensors-rust")
    ours = os.path.join(ROOT, "build", "bench", "safetensors_open")
    with tempfile.TemporaryDirectory() as folder:
        if not files:
            files = [os.path.join(folder, "20k.safetensors")]
            make(files[0], 20000)
        print("%-40s %8s %12s %12s %7s" % ("FILE", "TENSORS", "QUENCH us", "RUST us", "RATIO"))
        for path in files:
            a, b = [], []
            for _ in range(ROUNDS):
                a.append(best(ours, path))
                b.append(best(rust, path))
            if {n for _, n in a} != {n for _, n in b}:
                sys.exit("%s: the two see another number of tensors" % path)
            print("%-40s %8d %12.1f %12.1f %7.2f" % (os.path.basename(path), a[0][1], min(a)[0], min(b)[0],
                                                     min(b)[0] / min(a)[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
