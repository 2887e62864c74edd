#!/usr/bin/env python3
"""Make src/kernels/scalar/codebooks.c from scripts/codebooks.txt.

usage: make_codebooks.py [--check]

Without arguments the C file is written. With --check nothing is written: exit 0 if the committed file
is what this script makes, else 1 and one line that says what to do.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "scripts" / "codebooks.txt"
OUTPUT = ROOT / "src" / "kernels" / "scalar" / "codebooks.c"
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


HEAD = """/* codebooks.c - points of the lattice grids: levels packed as lattice_internal.h says, and the bytes
 * that products are made of. Made by scripts/make_codebooks.py from scripts/codebooks.txt: change
 * those. */
#include "kernels/lattice_internal.h"

/* Levels as bytes, dimension 0 lowest: 8, 25, 43 (iq2), 8 level + 1 (iq1), 4 .. 62 and 1 .. 15 (iq3).
 */
#define PACKED(p) p,
#define LEVEL_2(p, k) ((uint64_t)(p) >> (2 * (k)) & 3)
#define LEVEL_4(p, k) ((uint32_t)(p) >> (4 * (k)) & 7)
#define BYTE_IQ1(l) (1 + 8 * (l))
#define BYTE_IQ2(l) (8 + 17 * (l) + ((l) >> 1))
#define BYTE_IQ3_XXS(l) (4 + 8 * (l) + 2 * ((l) == 7))
#define BYTE_IQ3_S(l) (1 + 2 * (l))
#define OCTET(p, byte)                                                                            \\
    byte(LEVEL_2(p, 0)) | byte(LEVEL_2(p, 1)) << 8 | byte(LEVEL_2(p, 2)) << 16 |                  \\
        byte(LEVEL_2(p, 3)) << 24 | byte(LEVEL_2(p, 4)) << 32 | byte(LEVEL_2(p, 5)) << 40 |       \\
        byte(LEVEL_2(p, 6)) << 48 | byte(LEVEL_2(p, 7)) << 56,
#define QUAD(p, byte)                                                                             \\
    byte(LEVEL_4(p, 0)) | byte(LEVEL_4(p, 1)) << 8 | byte(LEVEL_4(p, 2)) << 16 |                  \\
        byte(LEVEL_4(p, 3)) << 24,
#define OCTET_IQ1(p) OCTET(p, BYTE_IQ1)
#define OCTET_IQ2(p) OCTET(p, BYTE_IQ2)
#define QUAD_IQ3_XXS(p) QUAD(p, BYTE_IQ3_XXS)
#define QUAD_IQ3_S(p) QUAD(p, BYTE_IQ3_S)
"""


def render(grids):
    parts = [HEAD]
    of = {"iq1s": "OCTET_IQ1", "iq3xxs": "QUAD_IQ3_XXS", "iq3s": "QUAD_IQ3_S"}
    for name in GRIDS:
        points = grids[name][1]
        kind = of.get(name, "OCTET_IQ2")
        array, word = ("octets", "uint64_t") if kind.startswith("OCTET") else ("quads", "uint32_t")
        words = " ".join(f"P(0x{p:04x})" for p in points)
        body = " \\\n".join(textwrap.wrap(words, 94, initial_indent="    ", subsequent_indent="    "))
        parts.append(f"/* clang-format off */\n#define POINTS_{name}(P) \\\n{body}\n/* clang-format on */\n"
                     f"const uint16_t qni_points_{name}[{len(points)}] = {{POINTS_{name}(PACKED)}};\n"
                     f"const {word} qni_{array}_{name}[{len(points)}] = {{POINTS_{name}({kind})}};\n")
    return "\n".join(parts)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    text = render(read_grids())
    if not sys.argv[1:]:
        OUTPUT.write_text(text)
    elif not OUTPUT.exists() or OUTPUT.read_text() != text:
        print(f"{OUTPUT}:1: differs from what scripts/make_codebooks.py makes; run it")
        sys.exit(1)


main()
