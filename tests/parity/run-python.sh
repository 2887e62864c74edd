#!/bin/sh
# run-python.sh ARGUMENTS... — the interpreter of .deps/venv, or exit status 77 when it is not there.
python=$(dirname "$0")/../../.deps/venv/bin/python
if [ ! -x "$python" ]; then
    echo "skipped: $python is not there; run scripts/setup.sh test"
    exit 77
fi
exec "$python" "$@"
