#!/bin/bash
# run_hostile.sh st "COMMAND {}" — make the hostile corpus and run the command on its rows of one
# container. Exit 77, with a word, where the Python of scripts/setup.sh is not installed.
set -euo pipefail
case "${1:-}" in st) ;; *) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../.deps/venv/bin/python
if ! [ -x "$python" ]; then
    echo "skipped: $python is not there; run scripts/setup.sh test"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$here/hostile/make_hostile.py" "$folder"
# A sanitizer's report must not look like a refusal.
export ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99:halt_on_error=1
classes=$(cut -f2 "$folder/index.tsv" | sort -u | grep '^st-' | paste -sd,)
"$python" "$here/hostile/run_cases.py" "$folder" --cmd "$2" --only "$classes"
# What is no model, whatever its name says: one message, no crash.
"$python" "$here/hostile/run_cases.py" "$folder" --cmd "$2" --only not-a-model
