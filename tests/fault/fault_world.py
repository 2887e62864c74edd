#!/usr/bin/env python3
"""The command in a world that goes wrong: a full disk, a folder that cannot be written to, too few
descriptors, signals, inputs that vanish or shrink under it, a standard output that takes nothing.

usage: fault_world.py --faults PROGRAM --save PROGRAM --quench PROGRAM [--seed N]

Every run ends with 0 or 1, a failed one says why; under a final name stands what was there or the whole
output, and nothing is left beside it. What needs root (small and read-only file systems) is skipped
without, and said."""
import argparse
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import rows

N_SIGNALS = 25


def mount(point, options):
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", point],
                          stderr=subprocess.DEVNULL).returncode == 0


def full_disk(world, row):
    """Ever larger disks until it fits. False: this user may not mount."""
    n_blocks = 1
    if row.changes:  # a disk that holds the file as it is
        n_blocks = -(-os.path.getsize(os.path.join(world.inputs, row.changes)) // 4096)
    n_failed = 0
    while True:
        world.clean()
        if not mount(world.out, f"size={4 * n_blocks}k"):
            return False
        try:
            if row.changes:
                world.put_changed(row)
            done, _ = world.run(row)
            what = f"disk of {4 * n_blocks} KiB"
            world.judge(row, what, done, goes_on=True)
            if done.returncode == 0:
                if n_failed == 0 and len(row.expected[row.outputs[0]]) > 4096:
                    world.complain(row, what, "the smallest disk is large enough: nothing was tried")
                return True
            n_failed += 1
            if b"space" not in done.stderr and b"free" not in done.stderr:
                world.complain(row, what, "the message does not say that the disk is full", done)
        finally:
            subprocess.run(["umount", world.out], check=True)
        n_blocks += max(1, n_blocks // 4)


def read_only(world, row):
    world.clean()
    is_mounted = mount(world.out, "size=64k")
    if row.changes:
        world.put_changed(row)
    if is_mounted:
        subprocess.run(["mount", "-o", "remount,ro", world.out], check=True)
    else:
        if os.geteuid() == 0:
            return False
        os.chmod(world.out, 0o555)
    try:
        done, _ = world.run(row)
        if done.returncode != 1:
            world.complain(row, "read-only folder", "should fail", done)
        world.judge(row, "read-only folder", done, goes_on=True)
    finally:
        if is_mounted:
            subprocess.run(["umount", world.out], check=True)
        else:
            os.chmod(world.out, 0o755)
    return True


def descriptors(world, row):
    for limit in range(3, 40):
        world.prepare(row, with_old=limit % 2 == 0)
        done, _ = world.run(row, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        if done.returncode == 127 and b"shared libraries" in done.stderr:
            continue
        world.judge(row, f"{limit} descriptors", done)
        if done.returncode == 0:
            return
    world.complain(row, "descriptors", "39 are not enough")


def full_output(world, row):
    world.prepare(row, with_old=False)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(world.command(row), env=world.environment, stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE)
    if row.stdout and (done.returncode != 1 or b"standard output" not in done.stderr):
        world.complain(row, "full standard output", "should fail and say so", done)


class Slow:
    """A run that takes a while, on a model of its own."""

    def __init__(self, world):
        self.world, self.model = world, os.path.join(world.folder, "slow.gguf")
        sys.path.insert(0, str(rows.HERE.parent / "cli"))
        import make_fixtures as m
        block = m.f16(m.numbers(256 * 64, 1)) * 16
        tensors = [(f"blk.{i}.ffn_down.weight", m.TYPE_F16, (256, 1024), block) for i in range(12)]
        self.data = m.gguf([("general.architecture", m.STRING, "llama"), ("llama.block_count", m.U32, 12)], tensors)
        self.row = rows.Row("slow", f"quantize {self.model} {{out}}/o.gguf Q3_K_M 2", ["o.gguf"], is_timed=True)
        self.write()
        start = time.time()
        world.undisturbed(self.row)
        self.seconds = time.time() - start

    def write(self):
        pathlib.Path(self.model).write_bytes(self.data)

    def start(self):
        return subprocess.Popen(self.world.command(self.row), env=self.world.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, job, what):
        out, err = job.communicate(timeout=120)
        done = subprocess.CompletedProcess([], job.returncode, out, err)
        self.world.judge(self.row, what, done)
        return done


def signals(world, slow, draw):
    """SIGINT, SIGTERM and SIGHUP: it stops and cleans up. Stops and continuations: not noticed."""
    counts = {signal.SIGINT: 0, signal.SIGTERM: 0, signal.SIGHUP: 0}
    for i in range(N_SIGNALS):
        number = list(counts)[i % 3]
        world.prepare(slow.row, with_old=i % 3 == 0)
        job = slow.start()
        time.sleep(0.01 + draw.random() * slow.seconds)
        job.send_signal(number)
        out, err = job.communicate(timeout=120)
        done = subprocess.CompletedProcess([], job.returncode, out, err)
        if job.returncode == -number:  # before the handler was there
            world.check_finals(slow.row, number.name, done)
            continue
        world.judge(slow.row, number.name, done)
        counts[number] += job.returncode == 1
    for _ in range(3):
        world.prepare(slow.row, with_old=False)
        job = slow.start()
        while job.poll() is None:
            job.send_signal(signal.SIGSTOP)
            job.send_signal(signal.SIGCONT)
            time.sleep(0.002)
        if slow.end(job, "stopped and continued").returncode != 0:
            world.complain(slow.row, "stopped and continued", "should not have been noticed")
    return counts


def stopped_verify(world, draw):
    """A check that is interrupted says neither good nor bad. How many were."""
    import make_fixtures as m
    path = os.path.join(world.folder, "zeros.gguf")
    head = m.gguf([("general.architecture", m.STRING, "llama")], [("a.weight", m.TYPE_F16, (256, 1 << 19), b"")])
    pathlib.Path(path).write_bytes(head)
    os.truncate(path, len(head) + (256 << 20))
    n_stopped = 0
    for i in range(N_SIGNALS):
        job = subprocess.Popen([world.quench, "verify", "-t", "1", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.005 + 0.06 * draw.random())
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=120)
        is_whole = job.returncode == 0 and b": ok:" in out
        is_stopped = job.returncode == 1 and b": ok:" not in out and b"BAD" not in out and b"interrupted" in err
        n_stopped += is_stopped
        if not is_whole and not is_stopped and job.returncode != -signal.SIGINT:
            world.wrong += 1
            print("WRONG an interrupted verify:", job.returncode, out.decode(), err.decode())
    os.unlink(path)
    return n_stopped


def shrinking(world, slow, draw):
    n_failed = 0
    for i in range(N_SIGNALS):
        slow.write()
        world.prepare(slow.row, with_old=i % 2 == 0)
        job = slow.start()
        time.sleep(draw.random() * slow.seconds)
        os.truncate(slow.model, draw.randrange(len(slow.data)))
        n_failed += slow.end(job, "input cut").returncode
    slow.write()
    for i in range(5):
        world.prepare(slow.row, with_old=False)
        job = slow.start()
        time.sleep(0.02 + draw.random() * slow.seconds)
        os.unlink(slow.model)  # open files stay
        slow.end(job, "input removed")
        slow.write()
    return n_failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--faults", "--save", "--quench"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    world = rows.World(options)
    draw = random.Random(options.seed)
    print(f"seed {options.seed}")
    try:
        n_disks = n_folders = 0
        writing = [row for row in rows.ROWS if row.outputs and not row.inserts]  # in memory, where nothing is inserted
        for row in rows.ROWS:
            if row.program == "save" or row.inserts:
                continue
            world.undisturbed(row)
            descriptors(world, row)
            full_output(world, row)
        for row in writing:
            n_disks += full_disk(world, row)
            n_folders += read_only(world, row)
        slow = Slow(world)
        counts = signals(world, slow, draw)
        n_verify = stopped_verify(world, draw)
        n_cut = shrinking(world, slow, draw)
        if world.digest_inputs() != world.input_digest:
            world.wrong += 1
            print("WRONG the inputs were changed")
    finally:
        world.close()
    print(f"{n_disks} of {len(writing)} commands on full disks, {n_folders} in read-only folders"
          + ("" if n_disks else " (not tried: no leave to mount)"))
    print("stopped by", ", ".join(f"{k.name} {v}" for k, v in counts.items()), f"of {N_SIGNALS};",
          f"{n_cut} of {N_SIGNALS} runs on inputs that were cut failed, all with a message")
    print(f"{n_verify} of {N_SIGNALS} checks were interrupted")
    print(f"{world.n_runs} runs, {world.wrong} wrong")
    return 1 if world.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
