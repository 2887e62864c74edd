#!/bin/bash
# coverage.sh — lines of the library that the quick tests run, by file, and build-coverage/coverage.html.
# Exit status 1 below 90 % of all lines; the command (src/cli) and code of other machines do not count.
set -euo pipefail
case "${1:-}" in --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
cmake --preset coverage >/dev/null
cmake --build --preset coverage -j "$(nproc)" >/dev/null
find build-coverage -name '*.gcda' -delete
# Counts are written when a program ends: one that is killed or whose calls are made to fail adds none, and one that may
# not write says so among its own words, which cli/quantize takes amiss.
ctest --test-dir build-coverage -LE 'full|soak|slow' -E '^(fault|install)/|^cli/quantize$' \
    -j "$(nproc)" --timeout 3000 --output-on-failure >build-coverage/tests.log ||
    { tail -n 40 build-coverage/tests.log; exit 1; }
# gcovr 5 stumbles over counts that threads have made negative
gcovr --gcov-ignore-parse-errors --root . --filter 'src/' --exclude 'src/kernels/arm/' --exclude 'src/cli/' --html build-coverage/coverage.html \
    --txt build-coverage/coverage.txt --fail-under-line 90 build-coverage || status=$?
cat build-coverage/coverage.txt
exit "${status:-0}"
