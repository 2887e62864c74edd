#!/usr/bin/env python3
"""What happens to a quantize job when the world goes wrong: killed, interrupted, no space, an input that
is cut.

usage: executor_faults.py --command FILE --demo FILE [--kills N] [--interrupts N] [--seed S] [--work DIR]

Kills a resumable job (SIGKILL) N times at random moments, several times an output, and lets the last one
of each finish: same bytes as an undisturbed job, never anything under the final name before, nothing left
beside it after. The same with SIGINT, which must also exit with status 1 and one line that says how to go
on. Then a full disk (a small tmpfs, when this user may mount one), a missing folder, an input that is cut
or has a NaN, and rows that need a fallback: status 1, the right words, nothing under the final name, the
input as it was. Exit status 77 without the model (scripts/setup.sh test).
"""
import argparse
import filecmp
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

FAILED = []
PRESET = "IQ4_XS"


def expect(condition, what):
    if not condition:
        FAILED.append(what)
        print("WRONG: " + what)
        sys.stdout.flush()


def run(args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Jobs:
    def __init__(self, a, src, whole, seconds):
        self.a = a
        self.src = src
        self.whole = whole
        self.seconds = seconds  # that an undisturbed job takes on one thread
        self.rng = random.Random(a.seed)
        self.n_resumed = 0  # finished jobs that found some of the work done
        self.n_outputs = 0

    def args(self, out):
        return [self.a.command, "quantize", "--quiet", "--log-level", "none", "--resume",
                "-t", str(self.rng.choice((1, 2, 3))), "--memory", self.rng.choice(("8M", "40M", "1G")), self.src, out, PRESET]

    def disturb(self, out, signum):
        """One job that is stopped at a random moment; False if it was done before."""
        job = subprocess.Popen(self.args(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(self.rng.random() * self.seconds)
        if job.poll() is None:
            job.send_signal(signum)
        text = job.communicate()[1]
        if job.returncode == 0:
            return False
        if signum == signal.SIGKILL and os.path.exists(out):  # after its commit: whole, the journal may be left
            expect(filecmp.cmp(out, self.whole, shallow=False), "a killed job's output is not whole")
        else:
            expect(not os.path.exists(out), "something stands under the final name of a stopped job")
        if signum == signal.SIGKILL:
            expect(job.returncode == -signum, "a killed job ends with %d: %s" % (job.returncode, text))
        else:
            expect(job.returncode == 1 and text.count("\n") == 1 and "run the same command again" in text,
                   "an interrupted job ends with %d: %s" % (job.returncode, text))
        return True

    def finish(self, out):
        got = run([self.a.command, "quantize", "--json", "--log-level", "none", "--resume", self.src, out, PRESET])
        expect(got.returncode == 0, "the last job fails: " + got.stderr)
        if got.returncode == 0:
            plan = json.loads(got.stdout)
            self.n_resumed += plan["stats"]["n_bytes_read"] < plan["source_bytes"]

    def check(self, out):
        expect(os.path.exists(out) and filecmp.cmp(out, self.whole, shallow=False), "a resumed job makes other bytes")
        left = [f for f in os.listdir(os.path.dirname(out)) if f.startswith(os.path.basename(out) + ".")]
        expect(not left, "left behind %s" % left)
        self.n_outputs += 1
        if os.path.exists(out):
            os.unlink(out)

    def many(self, signum, n_wanted, out):
        n = 0
        while n < n_wanted and len(FAILED) < 20:
            for _ in range(self.rng.choice((1, 2, 4))):
                if not self.disturb(out, signum):
                    break
                n += 1
                if n == n_wanted:
                    break
            if not os.path.exists(out) or os.path.exists(out + ".quench-journal"):
                self.finish(out)
            self.check(out)
        return n


def full_disk(a, src, work):
    """True if it could be tried."""
    point = os.path.join(work, "small")
    os.mkdir(point)
    if run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", point]).returncode != 0:
        os.rmdir(point)
        return False
    try:
        for extra in ([], ["--resume"]):
            got = run([a.command, "quantize", *extra, src, os.path.join(point, "out.gguf"), "Q8_0"])
            expect(got.returncode == 1 and "free" in got.stderr and got.stderr.count("\n") == 1, "full disk: " + got.stderr)
            expect(not os.listdir(point), "full disk: left behind %s" % os.listdir(point))
    finally:
        run(["umount", point])
        os.rmdir(point)
    return True


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def refusals(a, src, work):
    """Jobs that cannot succeed: (input, output, preset, options, words of the message)."""
    bad = os.path.join(work, "nan.gguf")
    with open(src, "rb") as f:
        raw = bytearray(f.read())
    raw[-40000:-39998] = b"\x00\x7e"  # an f16 NaN, near the end of the last tensor
    with open(bad, "wb") as f:
        f.write(raw)
    short = os.path.join(work, "short.gguf")
    with open(short, "wb") as f:
        f.write(raw[:len(raw) // 2])
    out = os.path.join(work, "x.gguf")
    for given, target, preset, options, words in (
            (src, os.path.join(work, "none", "out.gguf"), "Q8_0", [], ["none", "No such file or directory"]),
            (src, out, "Q4_K_M", ["--no-fallback"], ["576", "256"]),
            (bad, out, "Q8_0", [], ["NaN", "row"]),
            (short, out, "Q8_0", [], ["short.gguf", "missing"])):
        before = digest(given)
        for extra in ([], ["--resume"]):
            got = run([a.command, "quantize", "--log-level", "none", *options, *extra, given, target, preset])
            expect(got.returncode == 1 and got.stderr.count("\n") == 1 and all(w in got.stderr for w in words),
                   "%s %s: %d %s" % (os.path.basename(given), options, got.returncode, got.stderr))
            left = [f for f in os.listdir(work) if f.startswith("x.gguf")]
            expect(not left, "%s %s: left behind %s" % (os.path.basename(given), options, left))
        expect(digest(given) == before, "the input was changed")


def cut_while_running(a, src, work):
    """The input shrinks under the job."""
    out, copy = os.path.join(work, "cut-out.gguf"), os.path.join(work, "cut.gguf")
    with open(src, "rb") as f, open(copy, "wb") as g:
        g.write(f.read())
    job = subprocess.Popen([a.command, "quantize", "--isa", "scalar", "-t", "1", "--log-level", "none", copy, out, PRESET],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not [f for f in os.listdir(work) if f.startswith("cut-out.gguf") or f.startswith(".")]:
        if job.poll() is not None:
            break
        time.sleep(0.01)
    os.truncate(copy, os.path.getsize(copy) // 8)
    text = job.communicate()[1]
    expect(job.returncode == 1 and "cut.gguf" in text and text.count("\n") == 1, "cut while running: %d %s" % (job.returncode, text))
    left = [f for f in os.listdir(work) if f.startswith("cut-out.gguf") or f.startswith(".")]
    expect(not left, "cut while running: left behind %s" % left)
    os.unlink(copy)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--command", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--kills", type=int, default=50)
    ap.add_argument("--interrupts", type=int, default=10)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--work")
    a = ap.parse_args()
    if not os.path.exists(a.demo):
        print("skipped: %s is not there; run scripts/setup.sh test" % a.demo)
        return 77
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        src, whole = os.path.join(work, "f16.gguf"), os.path.join(work, "whole.gguf")
        got = run([a.command, "quantize", "--allow-requantize", a.demo, src, "F16"])
        expect(got.returncode == 0, got.stderr)
        start = time.monotonic()
        got = run([a.command, "quantize", "-t", "1", "--log-level", "none", src, whole, PRESET])
        seconds = time.monotonic() - start
        expect(got.returncode == 0, got.stderr)
        jobs = Jobs(a, src, whole, seconds)
        n_killed = jobs.many(signal.SIGKILL, a.kills, os.path.join(work, "killed.gguf"))
        n_interrupted = jobs.many(signal.SIGINT, a.interrupts, os.path.join(work, "stopped.gguf"))
        expect(n_killed == a.kills and n_interrupted == a.interrupts, "too few jobs were stopped")
        expect(jobs.n_resumed > 0, "no job ever found work that was done")
        refusals(a, src, work)
        cut_while_running(a, src, work)
        has_disk = full_disk(a, src, work)
    print("executor faults (seed %d): %d jobs killed and %d interrupted over %d outputs, %d of them went on from earlier "
          "work, full disk %s, %d wrong" % (a.seed, n_killed, n_interrupted, jobs.n_outputs, jobs.n_resumed,
                                            "tried" if has_disk else "NOT TRIED (no leave to mount)", len(FAILED)))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
