#!/usr/bin/env python3
"""What happens to a quantize job when the world goes wrong: killed, no space, an input that is cut.

usage: executor_faults.py --driver FILE --demo FILE [--kills N] [--work DIR]

Kills a resumable job N times at random moments and lets the last one finish: same bytes as an
undisturbed job, never anything under the final name before. Then a full disk (a small tmpfs, when this
user may mount one), a missing folder, and rows that need a fallback. Exit status 77 without the model.
"""
import argparse
import filecmp
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

FAILED = []


def expect(condition, what):
    if not condition:
        FAILED.append(what)
        print("WRONG: " + what)


def run(args, **kw):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def kills(a, src, work, whole):
    """Returns how many jobs were killed before they were done."""
    rng = random.Random(7)
    out = os.path.join(work, "killed.gguf")
    n_killed = 0
    for i in range(a.kills):
        for signum in ((signal.SIGKILL,) if i % 5 else (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL)):
            job = subprocess.Popen([a.driver, src, out, "IQ4_XS", "--resume", "-t", str(1 + i % 3)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * 1.5)
            if job.poll() is None:
                job.send_signal(signum)
                job.wait()
                n_killed += 1
                expect(not os.path.exists(out), "kill %d: something stands under the final name" % i)
            else:
                break
        got = run([a.driver, src, out, "IQ4_XS", "--resume"])
        expect(got.returncode == 0, "kill %d: the last job fails: %s" % (i, got.stderr))
        expect(filecmp.cmp(out, whole, shallow=False), "kill %d: other bytes" % i)
        left = [f for f in os.listdir(work) if f.startswith("killed.gguf.")]
        expect(not left, "kill %d: left behind %s" % (i, left))
        os.unlink(out)
    return n_killed


def full_disk(a, src, work):
    """True if it could be tried."""
    point = os.path.join(work, "small")
    os.mkdir(point)
    if run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", point]).returncode != 0:
        os.rmdir(point)
        return False
    try:
        out = os.path.join(point, "out.gguf")
        got = run([a.driver, src, out, "Q8_0"])
        expect(got.returncode == 1 and "NoSpace" in got.stderr, "full disk: " + got.stderr)
        expect(not os.listdir(point), "full disk: left behind %s" % os.listdir(point))
    finally:
        run(["umount", point])
        os.rmdir(point)
    return True


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--driver", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--kills", type=int, default=50)
    ap.add_argument("--work")
    a = ap.parse_args()
    if not os.path.exists(a.demo):
        print("skipped: %s is not there; run scripts/setup.sh test" % a.demo)
        return 77
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        src, whole = os.path.join(work, "f16.gguf"), os.path.join(work, "whole.gguf")
        got = run([a.driver, a.demo, src, "F16", "--allow-requantize", "--no-sync"])
        expect(got.returncode == 0, got.stderr)
        got = run([a.driver, src, whole, "IQ4_XS", "--no-sync"])
        expect(got.returncode == 0, got.stderr)
        n_killed = kills(a, src, work, whole)
        has_disk = full_disk(a, src, work)
        got = run([a.driver, src, os.path.join(work, "none", "out.gguf"), "Q8_0"])
        expect(got.returncode == 1 and "none" in got.stderr, "missing folder: " + got.stderr)
        got = run([a.driver, src, os.path.join(work, "x.gguf"), "Q4_K_M", "--no-fallback"])
        expect(got.returncode == 1 and "576" in got.stderr, "no fallback: " + got.stderr)
        expect(not os.path.exists(os.path.join(work, "x.gguf")), "no fallback: left a file")
    print("executor faults: %d jobs killed over %d outputs, full disk %s, %d wrong"
          % (n_killed, a.kills, "tried" if has_disk else "not tried (no leave to mount)", len(FAILED)))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
