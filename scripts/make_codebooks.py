#!/usr/bin/env python3
"""Make src/kernels/scalar/codebooks.c and codebook_bytes.c from scripts/codebooks.txt.

usage: make_codebooks.py [--check]

Without arguments the C files are written. With --check nothing is written: exit 0 if the committed files
are what this script makes, else 1 and a line for each that is not.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "scripts" / "codebooks.txt"
FOLDER = ROOT / "src" / "kernels" / "scalar"
GRIDS = ["iq1s", "iq2xxs", "iq2xs", "iq2s", "iq3xxs", "iq3s"]
HEADER = re.compile(r"\[(\w+)\] dims=(\d+) points=(\d+)")


def fail(message):
    print(f"{SOURCE}: {message}", file=sys.stderr)
    sys.exit(1)


def read_grids():
    """name -> (dims, points); every promise the encoders rely on is checked here."""
    grids = {}
    name, want = None, {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        head = HEADER.fullmatch(line)
        if head:
            name = head[1]
            grids[name] = (int(head[2]), [])
            want[name] = int(head[3])
        elif name is None:
            fail(f"line {number}: points before the first [grid] line")
        else:
            grids[name][1].extend(int(word, 16) for word in line.split())
    for name in GRIDS:
        if name not in grids:
            fail(f"grid {name} is missing")
        dims, points = grids[name]
        width, top = (2, 2) if dims == 8 else (4, 7)
        if len(points) != want[name]:
            fail(f"grid {name} has {len(points)} points, its header says {want[name]}")
        if any(a >= b for a, b in zip(points, points[1:])):
            fail(f"grid {name} is not in ascending order")
        mask = (1 << width) - 1
        if any((p >> (width * k)) & mask > top for p in points for k in range(dims)):
            fail(f"grid {name} has a level above {top}")
    return grids


HEAD = """/* {file} - {what}
 * Made by scripts/make_codebooks.py from scripts/codebooks.txt: change those. */
#include "kernels/lattice_internal.h"
"""

# What products make of a level.
BYTES = {"iq1s": [1, 9, 17], "iq3xxs": [4, 12, 20, 28, 36, 44, 52, 62], "iq3s": list(range(1, 16, 2))}
IQ2_BYTES = [8, 25, 43]


def as_bytes(name, dims, point):
    """The levels of a point as bytes, dimension 0 lowest."""
    width = 16 // dims
    values = BYTES.get(name, IQ2_BYTES)
    return sum(values[point >> (width * k) & ((1 << width) - 1)] << (8 * k) for k in range(dims))


def array(ctype, name, words):
    body = "\n".join(textwrap.wrap(" ".join(f"{w}," for w in words), 96, initial_indent="    ",
                                   subsequent_indent="    "))
    return (f"/* clang-format off */\nconst {ctype} {name}[{len(words)}] = {{\n{body}\n}};\n"
            "/* clang-format on */\n")


def packed_points(name, dims, points):
    return array("uint16_t", f"qni_points_{name}", [f"0x{p:04x}" for p in points])


def byte_points(name, dims, points):
    kind, ctype = ("octets", "uint64_t") if dims == 8 else ("quads", "uint32_t")
    return array(ctype, f"qni_{kind}_{name}", [f"0x{as_bytes(name, dims, p):0{2 * dims}x}" for p in points])


# File, what it holds, and how one grid is written.
OUTPUTS = [
    ("codebooks.c", "points of the lattice grids, levels packed as lattice_internal.h says.", packed_points),
    ("codebook_bytes.c", "points of the lattice grids as the bytes that products are made of.", byte_points),
]


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    grids = read_grids()
    status = 0
    for file, what, render in OUTPUTS:
        text = "\n".join([HEAD.format(file=file, what=what)] + [render(name, *grids[name]) for name in GRIDS])
        path = FOLDER / file
        if not sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path}:1: differs from what scripts/make_codebooks.py makes; run it")
            status = 1
    sys.exit(status)


main()
