#!/bin/bash
# test.sh quick|full — build and run the tests; ends with one line "N passed, N failed[, N skipped]".
#   quick  the release build's rings, and the parsers once more under the sanitizers: at most 15
#          minutes on 2 cores
#   full   adds the tests labelled "full" and the builds of other compilers, sanitizers and machines
# Exit status 1 if anything failed or nothing ran.
set -euo pipefail
case "${1:-}" in quick | full) mode=$1 ;; *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."
jobs=$(nproc)
passed=0 failed=0 skipped=0

# build PRESET: configure and compile, quietly unless it fails.
build() {
    local log=build-$1.log
    { cmake --preset "$1" -DQN_WITH_TESTS=ON && cmake --build --preset "$1" -j "$jobs"; } >"$log" 2>&1 && { rm -f "$log"; return 0; }
    tail -n 60 "$log"
    rm -f "$log"
    echo "test: the build '$1' failed"
    echo "0 passed, 1 failed"
    exit 1
}

# rings DIR CTEST-ARGS...: run tests and add up what ctest says.
rings() {
    local dir=$1 out; shift
    out=$(mktemp)
    ctest --test-dir "$dir" --output-on-failure -j "$jobs" --no-tests=error "$@" 2>&1 | tee "$out" || true
    local p f s
    p=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.* Passed ' "$out" || true)
    s=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*Skipped ' "$out" || true)
    f=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)' "$out" || true)
    rm -f "$out"
    if [ $((p + f + s)) -eq 0 ]; then echo "test: nothing ran in $dir"; f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# static_command: the tests of the command with the static file; see scripts/static.sh.
static_command() {
    local out; out=$(mktemp)
    if scripts/static.sh && tests/cli/run_cases.py --quench build-musl/quench >"$out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        grep -v '^ok' "$out" || true
        echo "test: the static command fails"
    fi
    tail -n 1 "$out"
    rm -f "$out"
}

case $(uname -m) in x86_64) ;; *) echo "test: no pinned ggml for this machine: parity tests are skipped" ;; esac
if [ "$mode" = quick ]; then
    build release
    rings build -LE 'full|soak'
    build asan
    rings build-asan -L 'unit|conformance|fuzz' -LE 'full|soak|slow'
else
    build release
    rings build -LE soak
    build asan
    # every failing call under the sanitizers too; what takes only long, or is timed, has run above
    rings build-asan -L 'unit|conformance|fuzz|cli|fault|kernels' -LE 'soak' -E 'fault/(complexity|kills)'
    build tsan
    rings build-tsan -L 'threads' -LE 'soak'
    build clang
    rings build-clang -L 'unit|kernels' -LE 'soak'
    static_command
fi
printf '%d passed, %d failed' "$passed" "$failed"
[ "$skipped" -gt 0 ] && printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
