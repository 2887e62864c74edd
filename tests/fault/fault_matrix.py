#!/usr/bin/env python3
"""Every command with its n-th call failing: n = 1, 2, ... until no call is left to fail.

usage: fault_matrix.py quick|full --faults PROGRAM --save PROGRAM --quench PROGRAM [--only NAME]

For allocations, opens, reads, writes, maps, stats, renames, fsyncs, lengths, closes, links, removals,
copies and thread starts: the command ends with 1 and a message, or does its work all the same; under a
final name stands what was there or the whole output; nothing is left beside it; inputs keep their bytes;
a sanitizer's complaint or leak is a failure. Interrupted and short calls must not be noticed at all. A
kill before any call on files leaves nothing half-made. `quick` steps through long counts."""
import argparse
import sys
import time

import rows

FAILING = ["alloc", "open", "read", "write", "map", "stat", "rename", "sync", "size", "close", "link", "remove",
           "copy", "thread"]
PLAN = ([(kind, "fail") for kind in FAILING]
        + [(kind, "interrupt") for kind in ("open", "read", "write", "sync", "size", "close", "copy")]
        + [(kind, "short") for kind in ("read", "write", "copy")]
        + [(kind, "quota") for kind in ("write", "size", "copy", "sync")]
        + [("io", "kill")])
LASTING = [("alloc", "fail"), ("write", "fail"), ("open", "fail"), ("read", "fail")]


def next_n(n, is_quick, action):
    first = 24 if action in ("fail", "kill") else 6
    return n + 1 if not is_quick or n < first else n + max(1, n // 3)


def run_kind(world, row, kind, action, plus, is_quick):
    n, n_struck = 1, 0
    while True:
        world.prepare(row, with_old=n % 2 == 0)
        what = f"{kind}:{n}{plus}:{action}"
        done, is_struck = world.run(row, what)
        if not is_struck:
            if done.returncode != 0:
                world.complain(row, what, "fails although nothing was struck", done)
            return n_struck
        n_struck += 1
        if action == "kill":
            if done.returncode != -9:
                world.complain(row, what, "was not killed", done)
            if row.program == "save":
                world.check_save(row, what, done)
            else:
                world.check_finals(row, what, done)
            if row.resumes:
                world.check_resumed(row, what)
        else:
            world.judge(row, what, done, must_pass=action in ("interrupt", "short"), may_leave=kind == "remove")
        n = next_n(n, is_quick, action)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["quick", "full"])
    parser.add_argument("--only", help="rows whose name begins with this")
    parser.add_argument("--kind", help="this kind only")
    for name in ("--faults", "--save", "--quench"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    worlds = [rows.World(options), rows.World(options, on_disk=True)]  # memory is faster, but inserts nothing
    start = time.time()
    try:
        untested = [name for name in rows.quench_commands(options.quench)
                    if not any(row.args[0] == name for row in rows.ROWS)]
        if untested:
            worlds[0].wrong += 1
            print(f"WRONG no row of rows.py runs {untested}")
        for row in rows.ROWS:
            if options.only and not row.name.startswith(options.only):
                continue
            world = worlds[row.inserts]
            if not world.undisturbed(row):
                print(f"{row.name}: skipped, this file system inserts nothing")
                continue
            counts = {}
            plan = [(k, a, "") for k, a in PLAN]
            plan += [(k, a, "+") for k, a in LASTING] if options.mode == "full" else []
            for kind, action, plus in plan:
                if options.kind in (None, kind):
                    n = run_kind(world, row, kind, action, plus, options.mode == "quick")
                    counts[f"{kind}{plus}" + ("" if action == "fail" else "/" + action)] = n
            if world.digest_inputs() != world.input_digest:
                sys.exit(f"{row.name}: the inputs were changed")
            print(f"{row.name}: " + ", ".join(f"{k} {n}" for k, n in counts.items() if n), flush=True)
    finally:
        for world in worlds:
            world.close()
    wrong = sum(world.wrong for world in worlds)
    print(f"{sum(world.n_runs for world in worlds)} runs in {time.time() - start:.0f} s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
