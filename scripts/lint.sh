#!/bin/bash
# lint.sh — formatting, rooms, clang-tidy, shell scripts. Silent and 0, or what is wrong where.
set -euo pipefail
case "${1:-}" in --help) sed -n '2s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
status=0
mapfile -t sources < <(git ls-files '*.c' '*.h')
clang-format --dry-run --Werror "${sources[@]}" || status=1
scripts/check-rooms.sh . || status=1
shellcheck scripts/*.sh .ci/run || status=1
cmake --preset clang >/dev/null
mapfile -t units < <(git ls-files 'src/*.c' | grep -v '^src/kernels/arm/')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build-clang 2>/dev/null || status=1
exit $status
