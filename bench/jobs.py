#!/usr/bin/env python3
"""Whole quantize jobs beside llama_model_quantize, and beside write() of the same bytes.

usage: jobs.py --driver FILE|--quench FILE --peer DIR --model FILE.gguf [--presets A,B] [--threads N]
               [--rounds N] [--work DIR] [--json FILE]

For each preset, in one run and in turn: the input is read once (page cache warm); quench on N threads
(2), timed from its start to its end: with --driver the program tests/parity/quantize_driver, which leaves
the output in the page cache without fsync, as the peer does; with --quench the command, which sends it to
disk meanwhile, the final fsync given apart. Then the bytes of its output are written to a new file with write(), a MiB at a time from memory, timed around
the calls, without fsync; the peer's llama_model_quantize on N threads, timed around the call in a process of its own (it
does no fsync). Then the two files are compared. IQ3_S gets an importance matrix on both sides. With
--rounds each is repeated and the fastest counts. What was written before is on disk before anything is timed, so that
nobody pays for another's bytes. A preset followed by +pure is made with --pure on both sides: no tensor of another type.
Prints a table in Markdown.
"""
import argparse
import filecmp
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PARITY = os.path.join(HERE, "..", "tests", "parity")
sys.path.insert(0, PARITY)
import oracle_quantize as oracle  # noqa: E402

# preset: (at least this many times as fast as the peer or None, at least this share of write() or None)
TARGETS = {"Q4_K_M": (8, None), "Q5_K_M": (8, None), "Q6_K": (8, None), "Q2_K": (8, None), "Q3_K_M": (5, None),
           "IQ4_XS": (20, None), "IQ3_S": (4, None), "Q8_0": (None, 0.7), "Q4_0": (None, 0.7), "Q4_0+pure": (None, 0.7)}
WITH_MATRIX = {"IQ3_S"}
CHUNKS = 7  # make_imatrix.py
PIECE = 1 << 20


def warm(path):
    with open(path, "rb", buffering=0) as f:
        buffer = bytearray(8 << 20)
        while f.readinto(buffer):
            pass


def split_preset(preset):
    """(preset, options of the command)"""
    name, plus, _ = preset.partition("+")
    return name, ["--pure"] if plus else []


def run_driver(a, out, preset, matrix):
    preset, options = split_preset(preset)
    args = [a.driver, a.model, out, preset, *options, "-t", str(a.threads), "--stats", "--no-sync", "--keep-cache", *matrix]
    args += ["--imatrix-path", matrix[1]] if matrix else []
    start = time.monotonic()
    got = subprocess.run(args, stdout=subprocess.PIPE, text=True)
    wall = time.monotonic() - start
    if got.returncode != 0:
        sys.exit("quench fails")
    words = got.stdout.split()
    told = dict(zip(words[::2], words[1::2]))
    stats = {word + "_seconds": float(told[word]) for word in ("read", "compute", "write", "sync")}
    stats.update(seconds=wall, cores_busy=float(told["cores"]))
    return stats


def run_quench(a, out, preset, matrix):
    if a.driver:
        return run_driver(a, out, preset, matrix)
    preset, options = split_preset(preset)
    args = [a.quench, "quantize", "--json", "--stats", "--log-level", "none", "-t", str(a.threads), *options, *matrix,
            a.model, out, preset]
    start = time.monotonic()
    got = subprocess.run(args, stdout=subprocess.PIPE, text=True)
    wall = time.monotonic() - start
    if got.returncode != 0:
        sys.exit("quench fails")
    stats = json.loads(got.stdout)["stats"]
    stats["seconds"] = wall - stats["sync_seconds"]
    return stats


def write_again(source, target):
    """Seconds in write() for the same bytes, from memory to a new file."""
    seconds = 0.0
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with open(source, "rb", buffering=0) as f:
        while True:
            piece = f.read(PIECE)
            if not piece:
                break
            start = time.monotonic()
            n = os.write(fd, piece)
            seconds += time.monotonic() - start
            if n != len(piece):
                sys.exit("a short write")
    os.close(fd)
    os.unlink(target)
    return seconds


def run_peer(a, out, preset, matrix):
    preset, options = split_preset(preset)
    spec = {"lib_dir": a.peer, "src": a.model, "dst": out, "ftype": oracle.FTYPES[preset], "threads": a.threads,
            "pure": bool(options)}
    if matrix:
        n = int.from_bytes(open(matrix[1][:-len(".gguf")] + ".dat", "rb").read(4), "little")
        spec["imatrix"] = matrix[1]
        spec["override"] = ["quantize.imatrix.file=str:" + matrix[1][:127], "quantize.imatrix.dataset=str:calibration.txt",
                            "quantize.imatrix.entries_count=int:%d" % n, "quantize.imatrix.chunks_count=int:%d" % CHUNKS]
    result = oracle.run(spec)
    if result["rc"] != 0:
        sys.exit("the peer fails: %s" % result)
    return result


def remove(*paths):
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)


def measure(a, work, preset, matrix):
    ours, theirs, copy = (os.path.join(work, n) for n in ("quench.gguf", "peer.gguf", "copy"))
    best = None
    writes = []
    peers = []
    for _ in range(a.rounds):
        remove(ours, theirs)
        warm(a.model)
        os.sync()
        stats = run_quench(a, ours, preset, matrix)
        os.sync()
        writes.append(write_again(ours, copy))
        warm(a.model)
        os.sync()
        peers.append(run_peer(a, theirs, preset, matrix))
        if best is None or stats["seconds"] < best["seconds"]:
            best = stats
    peer = min(peers, key=lambda r: r["wall_s"])
    row = {"preset": preset, "matrix": bool(matrix), "out_bytes": os.path.getsize(ours), "quench": best,
           "write_s": min(writes), "peer_s": peer["wall_s"], "peer_peak_kb": peer["peak_rss_kb"],
           "equal": filecmp.cmp(ours, theirs, shallow=False)}
    row["factor"] = row["peer_s"] / best["seconds"]
    row["of_write"] = row["write_s"] / best["seconds"]
    remove(ours, theirs)
    return row


def verdict(row):
    factor, share = TARGETS.get(row["preset"], (None, None))
    if not row["equal"]:
        return "OTHER BYTES"
    if factor is not None:
        return "%s %d ×" % ("met:" if row["factor"] >= factor else "missed:", factor)
    if share is not None:
        return "%s %.0f %% of write()" % ("met:" if row["of_write"] >= share else "missed:", 100 * share)
    return ""


def show(row):
    q = row["quench"]
    print("| %s%s | %.1f | %.2f | **%.1f** | %.2f | %.0f %% | %.2f | %.2f / %.2f / %.2f | %.2f | %s |"
          % (row["preset"], " with matrix" if row["matrix"] else "", row["peer_s"], q["seconds"], row["factor"],
             row["write_s"], 100 * row["of_write"], q["sync_seconds"], q["read_seconds"], q["compute_seconds"],
             q["write_seconds"], q["cores_busy"], verdict(row)))
    sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--driver")
    ap.add_argument("--quench")
    ap.add_argument("--peer", required=True)
    ap.add_argument("--model", required=True)
    ap.add_argument("--presets", default=",".join(TARGETS))
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--work")
    ap.add_argument("--json")
    a = ap.parse_args()
    if bool(a.driver) == bool(a.quench):
        ap.error("give --driver or --quench")
    print("%s, %.2f GiB, %d threads, load %.1f" % (os.path.basename(a.model), os.path.getsize(a.model) / 2**30, a.threads,
                                                  os.getloadavg()[0]))
    print("\n| preset | peer s | quench s | peer ÷ quench | write() s | share of write() | fsync s | waiting for input / "
          "computing / waiting for output, thread s | cores busy | target |")
    print("|---|" + "---|" * 9)
    rows = []
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        stem = os.path.join(work, "matrix")
        for preset in a.presets.split(","):
            matrix = []
            if preset in WITH_MATRIX:
                subprocess.run([sys.executable, os.path.join(PARITY, "make_imatrix.py"), a.model, stem + ".gguf",
                                stem + ".dat"], check=True)
                matrix = ["--imatrix", stem + ".gguf"]
            rows.append(measure(a, work, preset, matrix))
            show(rows[-1])
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 0 if all(r["equal"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
