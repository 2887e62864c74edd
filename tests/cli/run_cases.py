#!/usr/bin/env python3
"""Runs the scripts of tests/cli and compares output, errors and exit status with what stands beside
them. See README.md in this folder."""
import argparse
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def expectation(case, suffix):
    path = case.with_suffix(suffix)
    if suffix == ".exit":
        return path.read_text().strip() if path.exists() else "0"
    return path.read_text() if path.exists() else ""


def write_expectation(case, suffix, text):
    path = case.with_suffix(suffix)
    nothing = "0" if suffix == ".exit" else ""
    if text == nothing:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text + ("\n" if suffix == ".exit" else ""))


def run_case(case, environment, timeout):
    with tempfile.TemporaryDirectory(prefix="quench-case-") as folder:
        done = subprocess.run(["sh", "-eu", str(case)], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    return {
        ".out": done.stdout.decode("utf-8", "backslashreplace"),
        ".err": done.stderr.decode("utf-8", "backslashreplace"),
        ".exit": str(done.returncode),
    }


def differences(case, got):
    lines = []
    for suffix in (".out", ".err", ".exit"):
        expected = expectation(case, suffix)
        if got[suffix] != expected:
            lines += difflib.unified_diff(expected.splitlines(), got[suffix].splitlines(),
                                          f"{case.name}: expected {suffix}", f"got {suffix}",
                                          lineterm="")
            lines += [f"{case.name}: {suffix} differs"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quench", required=True, help="the program to test")
    parser.add_argument("--update", action="store_true", help="write the expectations anew")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a case may take")
    parser.add_argument("names", nargs="*", help="folders or folder/case; default: all")
    options = parser.parse_args()

    cases = sorted(HERE.glob("*/*.sh"))
    if options.names:
        cases = [case for case in cases if case.parent.name in options.names
                 or f"{case.parent.name}/{case.stem}" in options.names]
    if not cases:
        sys.exit("run_cases.py: no such case")
    n_failed = n_skipped = 0
    with tempfile.TemporaryDirectory(prefix="quench-cli-") as folder:
        program = pathlib.Path(options.quench).resolve()
        tools = pathlib.Path(folder, "bin")
        fixtures = pathlib.Path(folder, "fixtures")
        tools.mkdir()
        fixtures.mkdir()
        (tools / "quench").symlink_to(program)
        subprocess.run([sys.executable, HERE / "make_fixtures.py", fixtures], check=True)
        environment = {
            "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "FIXTURES": str(fixtures), "CASES": str(HERE), "PYTHON": sys.executable,
            "HOME": folder,
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE"):
            if name in os.environ:
                environment[name] = os.environ[name]
        for case in cases:
            name = f"{case.parent.name}/{case.stem}"
            try:
                got = run_case(case, environment, options.timeout)
            except subprocess.TimeoutExpired:
                print(f"FAIL {name}: took more than {options.timeout} seconds")
                n_failed += 1
                continue
            if got[".exit"] == str(SKIPPED):
                print(f"SKIP {name}: {got['.err'].strip()}")
                n_skipped += 1
            elif options.update:
                for suffix, text in got.items():
                    write_expectation(case, suffix, text)
            else:
                lines = differences(case, got)
                print(f"{'FAIL' if lines else 'ok  '} {name}", *lines, sep="\n")
                n_failed += bool(lines)
    print(f"{len(cases) - n_failed - n_skipped} passed, {n_failed} failed, {n_skipped} skipped")
    if n_failed == 0 and n_skipped == len(cases):
        sys.exit(SKIPPED)
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
