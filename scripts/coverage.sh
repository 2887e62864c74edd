#!/bin/bash
# coverage.sh — lines of the library that the quick tests run, by folder, and build-coverage/coverage.html.
set -euo pipefail
case "${1:-}" in --help) sed -n '2s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
cmake --preset coverage >/dev/null
cmake --build --preset coverage -j "$(nproc)" >/dev/null
ctest --test-dir build-coverage -LE 'full|soak|slow' -j "$(nproc)" --output-on-failure >build-coverage/tests.log ||
    { tail -n 40 build-coverage/tests.log; exit 1; }
gcovr --root . --filter 'src/' --exclude 'src/kernels/arm/' --html build-coverage/coverage.html \
    --txt build-coverage/coverage.txt build-coverage
cat build-coverage/coverage.txt
