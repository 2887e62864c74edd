#!/usr/bin/env python3
"""Check the executor's error report against NumPy in double precision.

usage: report_numpy.py --driver FILE --demo FILE [--work DIR]

Quantizes the real model to several presets with and without a matrix, decodes old and new values
with the official gguf package, and compares RMSE, relative, weighted and maximum error and cosine of
every tensor to 6 digits. Exit status 77 when the model is not there.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from oracle_quantize import read_imatrix  # noqa: E402


def values(tensor):
    flat = dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
    return flat.reshape(-1, int(tensor.shape[0]))


def figures(x, y, weights):
    d = y - x
    w = np.ones(x.shape[1]) if weights is None else np.asarray(weights, np.float64)
    xx, dd = float((x * x).sum()), float((d * d).sum())
    ratio = lambda a, b: (a / b) ** 0.5 if a else 0.0
    norm = (xx * float((y * y).sum())) ** 0.5
    return ((dd / x.size) ** 0.5, ratio(dd, xx), ratio(float((w * d * d).sum()), float((w * x * x).sum())),
            float(np.abs(d).max()), float((x * y).sum()) / norm if dd else 1.0)


def check(driver, src, dst, preset, matrix):
    args = [driver, src, dst, preset, "--report", "-t", "2", "--no-sync"]
    args += ["--imatrix", matrix] if matrix else []
    out = subprocess.run(args, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    weights = dict(read_imatrix(matrix)) if matrix else {}
    old = {t.name: t for t in GGUFReader(src).tensors}
    new = {t.name: t for t in GGUFReader(dst).tensors}
    lines = [line.split("\t") for line in out.stdout.splitlines()]
    wrong = 0
    for name, *got in lines:
        is_weighted = new[name].tensor_type != old[name].tensor_type
        want = figures(values(old[name]), values(new[name]), weights.get(name) if is_weighted else None)
        for word, g, w in zip(("rmse", "relative", "weighted", "max", "cosine"), map(float, got), want):
            if abs(g - w) > 1e-6 * max(abs(w), 1e-30) and abs(g - w) > 1e-15:
                print("DIFFERS %s %s %s: %.17g, NumPy %.17g" % (preset, name, word, g, w))
                wrong += 1
    if len(lines) != len(new):
        print("DIFFERS %s: %d tensors reported of %d" % (preset, len(lines), len(new)))
        wrong += 1
    return len(lines), wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--driver", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--work")
    a = ap.parse_args()
    if not os.path.exists(a.demo):
        print("skipped: %s is not there; run scripts/setup.sh test" % a.demo)
        return 77
    n, wrong = 0, 0
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        src, dst = os.path.join(work, "f16.gguf"), os.path.join(work, "out.gguf")
        stem = os.path.join(work, "matrix")
        subprocess.run([a.driver, a.demo, src, "F16", "--allow-requantize", "--no-sync"], check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run([sys.executable, os.path.join(HERE, "make_imatrix.py"), src, stem + ".gguf",
                        stem + ".dat"], check=True)
        for preset, matrix in (("Q8_0", None), ("Q4_K_M", stem + ".gguf"), ("IQ4_XS", None)):
            n_lines, n_wrong = check(a.driver, src, dst, preset, matrix)
            n, wrong = n + n_lines, wrong + n_wrong
    print("report: %d tensors, %d figures differ" % (n, wrong))
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
