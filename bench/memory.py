#!/usr/bin/env python3
"""Peak memory of quantize jobs: resident, and in a control group that counts the page cache.

usage: memory.py --quench FILE --peer DIR --model FILE.gguf [--presets A,B|all|none] [--cgroup-presets A,B]
                 [--peer-presets A,B] [--threads N] [--limit MIB] [--seconds N] [--work DIR]

Every preset (those that need a matrix get one) on the model: the largest resident size of the process,
as the kernel accounts it (VmHWM), against 64 MiB and the size of the metadata. Then each of
--cgroup-presets in a control group of --limit MiB (128): version 1 of the memory controller, which
charges the page cache; the job must complete, and the most used is given. The peer's figures beside
them for --peer-presets: resident, and what becomes of it in the same group. The group needs root and is
skipped, and said so, where there is none. With --seconds N a job that takes longer is stopped then, and its
figure, marked, is that of the part that was done: all buffers are there from the first chunk on. Exit
status 1 if a job fails or passes its bound.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PARITY = os.path.join(HERE, "..", "tests", "parity")
sys.path.insert(0, PARITY)
import oracle_quantize as oracle  # noqa: E402

CONTROLLER = "/sys/fs/cgroup/memory"
BOUND_MIB = 64


class Group:
    """A memory control group; None as `folder` where none can be made."""

    def __init__(self, limit_mib):
        self.folder = os.path.join(CONTROLLER, "quench-bench-%d" % os.getpid())
        try:
            os.mkdir(self.folder)
            self.write("memory.limit_in_bytes", limit_mib << 20)
        except OSError as why:
            print("control group: SKIPPED: %s" % why)
            self.folder = None

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(str(value))

    def read(self, name):
        with open(os.path.join(self.folder, name)) as f:
            return int(f.read())

    def run(self, args):
        """(exit status, bytes used at most, text)"""
        self.write("memory.force_empty", 0)
        self.write("memory.max_usage_in_bytes", 0)
        inside = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.folder, "cgroup.procs"), *args]
        got = subprocess.run(inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return got.returncode, self.read("memory.max_usage_in_bytes"), (got.stdout + got.stderr).strip()

    def close(self):
        if self.folder is not None:
            self.write("memory.force_empty", 0)
            os.rmdir(self.folder)


def peak_of(args, seconds):
    """(exit status, largest resident size in bytes, text of the standard error)

    VmHWM is that of the program itself; the rusage of a child begins with what the interpreter had."""
    with tempfile.TemporaryFile() as text:
        child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=text)
        start, peak = time.monotonic(), 0
        while child.poll() is None:
            peak = max(peak, oracle.vm("VmHWM", child.pid))
            time.sleep(0.02)
            if seconds is not None and time.monotonic() - start > seconds:
                child.send_signal(signal.SIGINT)
                child.wait()
        text.seek(0)
        return child.returncode, peak * 1024, text.read().decode("utf-8", "replace").strip()


def quench_args(a, out, preset, matrix):
    return [a.quench, "quantize", "--quiet", "--log-level", "none", "-t", str(a.threads), *matrix, a.model, out, preset]


def header_bytes(a):
    got = subprocess.run([a.quench, "quantize", "--dry-run", "--json", "--log-level", "none", a.model, "Q8_0"],
                         check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(got.stdout)["outputs"][0]["header_bytes"]


def resident(a, out, matrix):
    """Every preset; returns the number of those that fail or take too much."""
    bound = (BOUND_MIB << 20) + header_bytes(a)
    presets = [p for p in oracle.FTYPES if p != "NVFP4"] + ["COPY"] if a.presets == "all" else a.presets.split(",")
    print("\n| preset | quench: most resident, MiB |\n|---|---|")
    n_bad, n_parts, largest = 0, 0, 0
    for preset in presets:
        status, peak, text = peak_of(quench_args(a, out, preset, matrix), a.seconds)
        is_part = a.seconds is not None and "interrupted" in text
        n_parts += is_part
        is_bad = (status != 0 and not is_part) or peak > bound
        n_bad += is_bad
        largest = max(largest, peak)
        print("| %s | %.1f%s |" % (preset, peak / 2**20, " FAILS: %s" % (text or "over the bound") if is_bad else " (part)" if is_part else ""))
        sys.stdout.flush()
    print("\nquench: at most %.1f MiB over %d presets, %d of them stopped early (bound: %.1f MiB)"
          % (largest / 2**20, len(presets), n_parts, bound / 2**20))
    return n_bad


def in_group(a, out, matrix):
    group = Group(a.limit)
    if group.folder is None:
        return 0
    n_bad = 0
    try:
        for preset in a.cgroup_presets.split(","):
            status, most, text = group.run(quench_args(a, out, preset, matrix))
            n_bad += status != 0
            print("group of %d MiB, quench %s: %s, at most %.1f MiB used"
                  % (a.limit, preset, "done" if status == 0 else "FAILS (%d) %s" % (status, text), most / 2**20))
            sys.stdout.flush()
        for preset in a.peer_presets.split(",") if a.peer_presets else []:
            spec = {"lib_dir": a.peer, "src": a.model, "dst": out, "ftype": oracle.FTYPES[preset], "threads": a.threads}
            status, most, _ = group.run([sys.executable, oracle.__file__, "--child", json.dumps(spec)])
            print("group of %d MiB, peer %s: %s, at most %.1f MiB used"
                  % (a.limit, preset, "done" if status == 0 else "killed or failed (%d)" % status, most / 2**20))
    finally:
        group.close()
    return n_bad


def peers(a, out):
    for preset in a.peer_presets.split(",") if a.peer_presets else []:
        got = oracle.run({"lib_dir": a.peer, "src": a.model, "dst": out, "ftype": oracle.FTYPES[preset],
                          "threads": a.threads})
        print("peer %s: most resident %.1f MiB, of its own (anonymous) %.1f MiB"
              % (preset, got.get("peak_rss_kb", 0) / 1024, got["peak_anon_kb"] / 1024))
        sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--quench", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--model", required=True)
    ap.add_argument("--presets", default="all")
    ap.add_argument("--cgroup-presets", default="Q8_0,Q4_K_M")
    ap.add_argument("--peer-presets", default="Q8_0")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--limit", type=int, default=128)
    ap.add_argument("--seconds", type=float)
    ap.add_argument("--work")
    a = ap.parse_args()
    print("%s, %.2f GiB, %d threads" % (os.path.basename(a.model), os.path.getsize(a.model) / 2**30, a.threads))
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        stem, out = os.path.join(work, "matrix"), os.path.join(work, "out.gguf")
        subprocess.run([sys.executable, os.path.join(PARITY, "make_imatrix.py"), a.model, stem + ".gguf", stem + ".dat"],
                       check=True)
        matrix = ["--imatrix", stem + ".gguf"]
        n_bad = in_group(a, out, matrix)
        n_bad += resident(a, out, matrix) if a.presets != "none" else 0
        peers(a, out)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
