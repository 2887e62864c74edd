#!/bin/sh
# parity-soak.sh PROGRAM LIBRARY — 100 rounds of the live comparison of the codecs with ggml's library.
# SEED=N in the environment repeats a run; without it the time is the seed, which is printed.
set -eu
case "${1:-}" in --help | "") sed -n '2,3s/^# //p' "$0"; exit 0 ;; esac
exec nice -n 10 "$1" "$2" -n "${ROUNDS:-100}" -s "${SEED:-$(date +%s)}"
