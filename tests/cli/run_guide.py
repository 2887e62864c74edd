#!/usr/bin/env python3
"""Runs the examples of docs/guide and compares what they print.

An example is a fenced block of kind `console`: lines that begin with "$ " are commands, run by sh in
one folder per page with `quench` on the PATH; what follows is their output, standard error included.
In the output "..." at the end of a line stands for any rest of it, and a line that is only "..." for
any number of lines. A page begins with the files of make_fixtures.py: `model.gguf` is its tiny.gguf.

run_guide.py --quench PROGRAM [PAGE...]"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GUIDE = HERE.parents[1] / "docs" / "guide"


def examples(page):
    """(line number, command, expected lines) of every command of a page."""
    found, inside = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append((number, line[2:], []))
        elif inside and found and found[-1][1].endswith("\\"):
            found[-1] = (found[-1][0], found[-1][1] + "\n" + line, found[-1][2])
        elif inside and found:
            found[-1][2].append(line)
    return found


def matches(expected, got):
    if not expected:
        return not got
    if expected[0] == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    if not got:
        return False
    pattern = expected[0].rstrip()
    line = got[0].rstrip()
    if pattern.endswith("..."):
        is_same = line.startswith(pattern[:-3])
    else:
        is_same = line == pattern
    return is_same and matches(expected[1:], got[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quench", required=True)
    parser.add_argument("pages", nargs="*")
    options = parser.parse_args()
    pages = [pathlib.Path(p) for p in options.pages] or sorted(GUIDE.glob("*.md"))
    n_run = n_failed = 0
    for page in pages:
        with tempfile.TemporaryDirectory(prefix="quench-guide-") as folder:
            tools = pathlib.Path(folder, "bin")
            work = pathlib.Path(folder, "work")
            tools.mkdir()
            work.mkdir()
            (tools / "quench").symlink_to(pathlib.Path(options.quench).resolve())
            subprocess.run([sys.executable, HERE / "make_fixtures.py", work], check=True)
            (work / "tiny.gguf").rename(work / "model.gguf")
            environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
            for number, command, expected in examples(page):
                done = subprocess.run(["sh", "-c", command], cwd=work, env=environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=60)
                got = done.stdout.decode("utf-8", "backslashreplace").splitlines()
                while expected and not expected[-1].strip():
                    expected.pop()
                while got and not got[-1].strip():
                    got.pop()
                n_run += 1
                if not matches(expected, got):
                    n_failed += 1
                    print(f"{page}:{number}: '{command}' prints something else:")
                    print(*["    " + line for line in got], sep="\n")
    print(f"{n_run - n_failed} passed, {n_failed} failed")
    sys.exit(1 if n_failed or n_run == 0 else 0)


if __name__ == "__main__":
    main()
