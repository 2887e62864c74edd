#!/usr/bin/env python3
"""Hold the strict profile to what ggml's own reader did with every file of the corpus.

usage: check_strict.py HOSTILE_DIR GGUF_PROBE

The index has a column for ggml's reader asked for the metadata only (`ggml-meta`), which is how
llama.cpp's loader uses it. Strict must agree, but for three things that are not the reader's: what it
let through although the data lie outside the file (llama.cpp's loader refuses those itself), products
that wrapped, and shards, which are checked as a set. Exit status 1 if anything differs.
"""
import subprocess
import sys


def main():
    folder, probe = sys.argv[1:]
    with open(folder + "/index.tsv", encoding="utf-8") as f:
        lines = f.read().splitlines()
    columns = lines[0].split("\t")
    n_checked = n_bad = 0
    for line in lines[1:]:
        row = dict(zip(columns, line.split("\t")))
        theirs = row["ggml-meta"]
        if not row["filename"].endswith(".gguf") or theirs in ("", "-") or row["class"] == "gguf-split":
            continue
        # accept-out-of-bounds, accept-wrong-size: mistakes, which strict does not repeat
        theirs = "reject" if theirs != "accept" else "accept"
        run = subprocess.run([probe, "--strict", folder + "/" + row["filename"]], capture_output=True,
                             text=True, errors="replace")
        ours = {0: "accept", 1: "reject"}.get(run.returncode, "crash")
        n_checked += 1
        if ours != theirs:
            n_bad += 1
            print("%s: strict says %s, ggml %s: %s" % (row["filename"], ours, row["ggml-meta"], run.stderr.strip()))
    print("%d files, %d differ" % (n_checked, n_bad))
    return 1 if n_bad or n_checked < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
