#!/usr/bin/env python3
"""A recipe printed from a preset and given back makes the same bytes.

usage: recipe_roundtrip.py --command FILE [--work DIR]

For every preset, without a matrix and with one, on the two made-up models of tests/data/policy. What a
preset gives without a recipe is compared with the peer elsewhere (quantize_parity.py), so the same bytes
here are the peer's. The recipe is given to another preset as well: the types must then be those of the
recipe, whatever the preset. Exit status 1 on a difference.
"""
import argparse
import filecmp
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from oracle_quantize import FTYPES, GGML_NAME, read_header  # noqa: E402

PRESETS = [p for p in FTYPES if p != "NVFP4"] + ["COPY"]
FAILED = []


def quench(a, *args):
    return subprocess.run([a.command, "quantize", "--quiet", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def types_of(a, src, preset, args):
    got = quench(a, "--dry-run", "--json", *args, src, preset)
    return [(t["name"], t["target"]) for t in json.loads(got.stdout)["tensors"]] if got.returncode == 0 else got.stderr


def check(a, work, src, preset, matrix):
    """1 if a file was made and compared, 0 if the preset needs a matrix."""
    label = "%s %s%s" % (os.path.basename(src), preset, " with a matrix" if matrix else "")
    one, two, recipe = (os.path.join(work, n) for n in ("one.gguf", "two.gguf", "recipe"))
    first = quench(a, *matrix, src, one, preset)
    if first.returncode != 0:
        if matrix or "importance" not in first.stderr:
            FAILED.append(label)
            print("FAILS %s: %s" % (label, first.stderr))
        return 0
    printed = quench(a, "--print-recipe", *matrix, src, preset)
    with open(recipe, "w") as f:
        f.write(printed.stdout)
    second = quench(a, "--recipe", recipe, *matrix, src, two, preset)
    if second.returncode != 0 or not filecmp.cmp(one, two, shallow=False):
        FAILED.append(label)
        print("DIFFERS %s: %s" % (label, second.stderr or "bytes"))
    want = [(n, GGML_NAME[t]) for n, _, t, _ in read_header(one)[2]]
    for other in ("Q2_K",):
        if preset not in ("COPY",) and types_of(a, src, other, ["--recipe", recipe, *matrix]) != want:
            FAILED.append(label)
            print("DIFFERS %s: the recipe under %s gives other types" % (label, other))
    return 1


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--command", required=True)
    ap.add_argument("--work")
    a = ap.parse_args()
    n = 0
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        maker = os.path.join(HERE, "..", "data", "policy", "make_models.py")
        subprocess.run([sys.executable, maker, work], check=True, stdout=subprocess.DEVNULL)
        for model in ("llama-gqa8", "moe8"):
            src, stem = os.path.join(work, "synth-%s.gguf" % model), os.path.join(work, model)
            subprocess.run([sys.executable, os.path.join(HERE, "make_imatrix.py"), src, stem + ".m.gguf",
                            stem + ".m.dat"], check=True)
            for preset in PRESETS:
                for matrix in ([], ["--imatrix", stem + ".m.gguf"]):
                    n += check(a, work, src, preset, matrix)
    print("recipes: %d files made twice, %d wrong" % (n, len(FAILED)))
    return 1 if FAILED or not n else 0


if __name__ == "__main__":
    sys.exit(main())
