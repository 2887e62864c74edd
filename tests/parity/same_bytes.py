#!/usr/bin/env python3
"""Whole files are the same for every instruction set, number of threads and memory budget.

usage: same_bytes.py quick|full --command FILE [--demo FILE] [--work DIR]

quick  every preset with a matrix on a made-up mixture of experts, on every instruction set that this
       machine has; threads and budgets take turns, so that each pair of them is used
full   every preset on both made-up models: all of 1, 2, 3 and 8 threads x 8 MiB, 64 MiB and 1 GiB on each
       instruction set (scalar: pairs take turns); four presets on the real model, widened to F16

The files of the default options are those that quantize_parity.py compares with the peer's. Exit status 1
on a difference, 77 if full is asked for without the real model (scripts/setup.sh test).
"""
import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from oracle_quantize import FTYPES  # noqa: E402

PRESETS = [p for p in FTYPES if p != "NVFP4"] + ["COPY"]
PAIRS = list(itertools.product((1, 2, 3, 8), ("8M", "64M", "1G")))
SCALAR_PAIRS = 3  # of full: the scalar kernels are slow


class Same:
    def __init__(self, a, work):
        self.a = a
        self.work = work
        self.n = 0
        self.n_wrong = 0
        self.turn = 0
        self.used = set()
        text = subprocess.run([a.command, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout
        line = [x for x in text.splitlines() if x.startswith("instruction sets:")][0]
        self.isas = line.split(":")[1].split("(")[0].split()

    def digest(self, src, preset, args):
        out = os.path.join(self.work, "out.gguf")
        got = subprocess.run([self.a.command, "quantize", "--quiet", "--log-level", "none", *args, src, out, preset],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if got.returncode != 0:
            return got.stderr.strip()
        with open(out, "rb") as f:
            value = hashlib.sha256(f.read()).hexdigest()
        os.unlink(out)
        return value

    def pairs(self, isa, is_all):
        if is_all and isa != "scalar":
            return PAIRS
        n = SCALAR_PAIRS if is_all else 1
        chosen = [PAIRS[(self.turn + i) % len(PAIRS)] for i in range(n)]
        self.turn += n
        return chosen

    def preset(self, src, preset, matrix, is_all):
        want = self.digest(src, preset, matrix)
        if len(want) != 64:
            print("FAILS %s %s: %s" % (os.path.basename(src), preset, want))
            self.n_wrong += 1
            return
        for isa in self.isas:
            for threads, memory in self.pairs(isa, is_all):
                got = self.digest(src, preset, matrix + ["--isa", isa, "-t", str(threads), "--memory", memory])
                self.n += 1
                self.used.add((threads, memory))
                if got != want:
                    print("DIFFERS %s %s --isa %s -t %d --memory %s: %s"
                          % (os.path.basename(src), preset, isa, threads, memory, got))
                    self.n_wrong += 1

    def matrix(self, src):
        stem = src + ".matrix"
        subprocess.run([sys.executable, os.path.join(HERE, "make_imatrix.py"), src, stem + ".gguf", stem + ".dat"],
                       check=True)
        return ["--imatrix", stem + ".gguf"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("mode", choices=["quick", "full"])
    ap.add_argument("--command", required=True)
    ap.add_argument("--demo")
    ap.add_argument("--work")
    a = ap.parse_args()
    is_full = a.mode == "full"
    if is_full and not (a.demo and os.path.exists(a.demo)):
        print("skipped: the real model is not there; run scripts/setup.sh test")
        return 77
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        same = Same(a, work)
        maker = os.path.join(HERE, "..", "data", "policy", "make_models.py")
        subprocess.run([sys.executable, maker, work], check=True, stdout=subprocess.DEVNULL)
        for model in ("moe8", "llama-gqa8") if is_full else ("moe8",):
            src = os.path.join(work, "synth-%s.gguf" % model)
            for preset in PRESETS:
                same.preset(src, preset, same.matrix(src), is_full)
        if is_full:
            src = os.path.join(work, "demo.gguf")
            subprocess.run([a.command, "quantize", "--quiet", "--allow-requantize", a.demo, src, "F16"], check=True)
            for preset in ("Q4_K_M", "Q8_0", "IQ4_XS", "Q6_K"):
                same.preset(src, preset, [], True)
    print("same bytes: %d files on %s, %d pairs of threads and memory, %d differ"
          % (same.n, " ".join(same.isas), len(same.used), same.n_wrong))
    if len(same.used) != len(PAIRS):
        print("not every pair of threads and memory was used")
        same.n_wrong += 1
    return 1 if same.n_wrong or not same.n else 0


if __name__ == "__main__":
    sys.exit(main())
