#!/usr/bin/env python3
"""Kill -9 at random moments of quantize, export, edit (also in place), extract and a checkpoint save.

usage: fault_kills.py --faults PROGRAM --save PROGRAM --quench PROGRAM [--kills N] [--seed N]

Each is killed N times (200): under the final name stands what was there before or the whole output; of a
checkpoint, the folder or its prev/ is a complete save and the next save works. fault_matrix.py kills
before every single call; this one kills the program as it is shipped, between calls too."""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

import rows


def make_model(world):
    sys.path.insert(0, str(rows.HERE.parent / "cli"))
    import make_fixtures as m
    block = m.f16(m.numbers(256 * 64, 1)) * 16
    tensors = [(f"blk.{i}.ffn_down.weight", m.TYPE_F16, (256, 1024), block) for i in range(6)]
    data = m.gguf([("general.architecture", m.STRING, "llama"), ("llama.block_count", m.U32, 6)], tensors)
    path = os.path.join(world.folder, "model.gguf")
    pathlib.Path(path).write_bytes(data)
    return path


def kill_loop(world, row, n_kills, draw):
    """How many were killed before their end, and after how many the new output stood there."""
    start = time.time()
    world.prepare(row, with_old=False)
    if world.run(row)[0].returncode != 0:
        sys.exit(f"{row.name}: fails undisturbed")
    seconds = time.time() - start
    n_killed = n_new = n_runs = 0
    while n_killed < n_kills and n_runs < 20 * n_kills:
        n_runs += 1
        world.prepare(row, with_old=n_runs % 2 == 0)
        job = subprocess.Popen(world.command(row), env=world.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(draw.random() * seconds)
        job.kill()
        err = job.communicate()[1]
        done = subprocess.CompletedProcess([], job.returncode, b"", err)
        n_killed += job.returncode == -9
        seconds *= 1.02 if job.returncode == -9 else 0.95  # other work beside it makes runs longer and shorter
        if job.returncode not in (0, -9):
            world.complain(row, "kill", "neither done nor killed", done)
        elif row.program == "save":
            world.check_save(row, "kill", done)
        else:
            n_new += set(world.check_finals(row, "kill", done)) == {"new"}
            if row.resumes:
                world.check_resumed(row, "kill")
    if n_killed < n_kills:
        world.complain(row, "kill", f"only {n_killed} runs could be killed in time")
    return n_killed, n_new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--faults", "--save", "--quench"):
        parser.add_argument(name, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--only", default="", help="rows whose name begins with this")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    worlds = [rows.World(options), rows.World(options, on_disk=True)]
    for world in worlds:
        world.programs["faults"] = world.quench
    draw = random.Random(options.seed)
    print(f"seed {options.seed}")
    try:
        model = make_model(worlds[0])
        split = ["o-%05d-of-00003.gguf" % i for i in (1, 2, 3)]
        loops = [
            rows.Row("quantize", f"quantize {model} {{out}}/o.gguf Q4_K_M 2", ["o.gguf"], is_timed=True),
            rows.Row("quantize-split", f"quantize --split-max-tensors 2 {model} {{out}}/o.gguf Q8_0 2", split,
                     is_timed=True),
            rows.Row("quantize-resume", f"quantize --resume {model} {{out}}/o.gguf Q4_K_M 2", ["o.gguf"],
                     is_timed=True, resumes=True),
            rows.Row("export", f"export --from-gguf {model} --out {{out}}/o.gguf --ptqtp=2 -t 2", ["o.gguf"],
                     is_timed=True),
            rows.Row("edit", f"edit --set general.name=string:x {model} {{out}}/o.gguf", ["o.gguf"], is_timed=True),
            rows.Row("edit-in-place", "edit --quiet --in-place --remove llama.block_count {out}/o.gguf", ["o.gguf"],
                     changes=model),
            rows.Row("edit-insert", f"edit --quiet --in-place --set general.note=string:{300 * 'y'} {{out}}/o.gguf",
                     ["o.gguf"], changes=model, inserts=True),
            rows.Row("extract", f"extract {model} blk.3.ffn_down.weight {{out}}/o.npy", ["o.npy"]),
            rows.Row("save", "{out}/ck 2", program="save"),
        ]
        for row in [row for row in loops if row.name.startswith(options.only)]:
            world = worlds[row.inserts]
            if not world.undisturbed(row):
                print(f"{row.name}: skipped, this file system inserts nothing")
                continue
            n_killed, n_new = kill_loop(world, row, options.kills, draw)
            print(f"{row.name}: {n_killed} killed, {n_new} after the output was in place", flush=True)
    finally:
        for world in worlds:
            world.close()
    wrong = sum(world.wrong for world in worlds)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
