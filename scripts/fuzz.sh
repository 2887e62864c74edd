#!/bin/bash
# fuzz.sh [TARGET...] — build the fuzz targets with clang and run each for SECONDS_EACH seconds (300).
# What is found is kept in build-fuzz/found, the growing corpus in build-fuzz/corpus/TARGET. Exit status 1
# if anything was found.
set -euo pipefail
case "${1:-}" in --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
    mapfile -t targets < <(sed -n 's/^quench_fuzz(\(.*\))$/\1/p' fuzz/CMakeLists.txt)
fi
mkdir -p build-fuzz/found
status=0
for target in "${targets[@]}"; do
    mkdir -p "build-fuzz/corpus/$target"
    dict=()
    if [ -f "fuzz/dict/$target.dict" ]; then dict=("-dict=fuzz/dict/$target.dict"); fi
    log=build-fuzz/fuzz_$target.log
    if nice -n 10 "build-fuzz/fuzz/fuzz_$target" -max_total_time="${SECONDS_EACH:-300}" -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="build-fuzz/found/${target}_" \
        "${dict[@]}" "build-fuzz/corpus/$target" "fuzz/seeds/$target" >"$log" 2>&1; then
        printf 'fuzz %s: nothing found; %s\n' "$target" "$(grep -o 'number_of_executed_units: .*' "$log")"
    else
        printf 'fuzz %s: FOUND, see %s\n' "$target" "$log"
        status=1
    fi
done
exit $status
