#!/usr/bin/env python3
"""Mutated, cut and random files through `quench inspect`: only errors, never a crash or a hang.

Files are made from the models of make_fixtures.py: bytes flipped, numbers replaced by extreme ones,
stretches removed, doubled or filled, ends cut, and plain noise. mutate.py --quench PROGRAM
[--count N] [--seed S]; prints the seed, and keeps the batch that broke something."""
import argparse
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 100
EXTREMES = [0, 1, 2, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1,
            2**63, 2**64 - 1]


def mutate(data, draw):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        # Nearly everything that is checked stands in the first bytes.
        at = draw.randrange(min(len(data), draw.choice([64, 1024, len(data)])))
        kind = draw.randrange(7)
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at] = draw.randrange(256)
        elif kind == 2:
            data[at:at + 8] = struct.pack("<Q", draw.choice(EXTREMES))
        elif kind == 3:
            data[at:at + 4] = struct.pack("<I", draw.choice(EXTREMES) & 0xFFFFFFFF)
        elif kind == 4:
            del data[at:at + draw.randrange(1, 64)]
        elif kind == 5:
            data[at:at] = data[at:at + draw.randrange(1, 64)]
        else:
            del data[at:]
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quench", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=20240)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    print(f"seed {options.seed}, {options.count} files")
    environment = dict(os.environ, ASAN_OPTIONS="exitcode=99:allocator_may_return_null=0",
                       UBSAN_OPTIONS="halt_on_error=1:exitcode=99", LC_ALL="C.UTF-8")
    with tempfile.TemporaryDirectory(prefix="quench-mutate-") as folder:
        fixtures = pathlib.Path(folder, "fixtures")
        fixtures.mkdir()
        subprocess.run([sys.executable, HERE / "make_fixtures.py", fixtures], check=True)
        parents = [p.read_bytes() for p in sorted(fixtures.iterdir())
                   if p.is_file() and p.suffix in (".gguf", ".safetensors") and p.stat().st_size > 64]
        for first in range(0, options.count, BATCH):
            batch = pathlib.Path(folder, "batch")
            shutil.rmtree(batch, ignore_errors=True)
            batch.mkdir()
            names = []
            for i in range(first, min(first + BATCH, options.count)):
                noise = draw.randrange(20) == 0
                data = draw.randbytes(draw.randrange(4096)) if noise else \
                    mutate(draw.choice(parents), draw)
                names.append(str(batch / f"{i}.bin"))
                pathlib.Path(names[-1]).write_bytes(data)
            for arguments in (["--full"], ["--json"]):
                done = subprocess.run([options.quench, "inspect", *arguments, *names],
                                      env=environment, capture_output=True, timeout=120)
                if done.returncode not in (0, 1):
                    kept = tempfile.mkdtemp(prefix="quench-broken-")
                    shutil.copytree(batch, kept, dirs_exist_ok=True)
                    print(f"exit status {done.returncode}; the files are in {kept}")
                    print(done.stderr.decode("utf-8", "replace")[-4000:])
                    sys.exit(1)
    print(f"{options.count} passed, 0 failed")


if __name__ == "__main__":
    main()
