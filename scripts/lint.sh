#!/bin/bash
# lint.sh [FILE...] — formatting, rooms, shell scripts, and clang-tidy over FILE... or all sources. Silent and
# 0, or what is wrong where.
set -euo pipefail
case "${1:-}" in --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
status=0
mapfile -t sources < <(git ls-files '*.c' '*.h')
clang-format --dry-run --Werror "${sources[@]}" || status=1
scripts/check-rooms.sh . || status=1
shellcheck scripts/*.sh .ci/run || status=1
cmake --preset clang >/dev/null
units=("$@")
if [ "${#units[@]}" -eq 0 ]; then
    mapfile -t units < <(git ls-files 'src/*.c' | grep -v '^src/kernels/arm/')
fi
printf '%s\n' "${units[@]}" | nice -n 15 xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build-clang 2>/dev/null || status=1
exit $status
