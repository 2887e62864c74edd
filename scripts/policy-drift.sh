#!/bin/bash
# policy-drift.sh [FOLDER [MODELS [SEED]]] — compare the policy tables with the choices of a llama.cpp library
# (libggml-base.so, libllama.so in FOLDER; the pinned one without it) by dry runs on MODELS (20) random models
# of many architectures. With the pinned library nothing may differ; with a newer one, what is printed is what
# has drifted. Exit status 1 on a difference.
set -euo pipefail
case "${1:-}" in --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
driver=build/tests/parity/quantize_driver
[ -x "$driver" ] || { echo "policy-drift: $driver is not there; run make" >&2; exit 1; }
exec tests/parity/run-python.sh tests/parity/check_policy_drift.py --driver "$driver" \
    --peer "${1:-.deps/peer/bins/linux-x64}" --models "${2:-20}" --seed "${3:-1}"
