#!/bin/bash
# fuzz.sh [-t SECONDS] [-j N] [-m] [TARGET...] — build the fuzz targets with clang and run each for
# SECONDS (300), N (2) at a time; all of fuzz/CMakeLists.txt without TARGET. What is found is kept in
# build-fuzz/found, the growing corpus in build-fuzz/corpus/TARGET. With -m nothing is run: the inputs
# of the corpora that add coverage are written to fuzz/corpus/TARGET, which the tests replay. Exit
# status 1 if anything was found.
set -euo pipefail
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit "$1"; }
seconds=300 at_once=2 do_merge=false
case "${1:-}" in --help) usage 0 ;; esac
while getopts t:j:m option; do
    case $option in
    t) seconds=$OPTARG ;;
    j) at_once=$OPTARG ;;
    m) do_merge=true ;;
    *) usage 2 ;;
    esac
done
shift $((OPTIND - 1))
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$at_once"
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
    mapfile -t targets < <(sed -n 's/^quench_fuzz(\(.*\))$/\1/p' fuzz/CMakeLists.txt)
fi
mkdir -p build-fuzz/found build-fuzz/corpus
largest_kept=4096 # bytes of an input that is committed

# folders TARGET: where inputs come from besides the growing corpus.
folders() {
    local folder
    for folder in "fuzz/seeds/$1" "fuzz/corpus/$1"; do
        if [ -d "$folder" ]; then printf '%s\n' "$folder"; fi
    done
}

# fuzz TARGET: run it, and say what came of it.
fuzz() {
    local target=$1 log=build-fuzz/fuzz_$1.log options=() dict
    for dict in "fuzz/dict/$target.dict" "fuzz/dict/${target%%_*}.dict"; do
        if [ -f "$dict" ]; then options=("-dict=$dict"); break; fi
    done
    mkdir -p "build-fuzz/corpus/$target"
    mapfile -t from < <(folders "$target")
    if nice -n 19 "build-fuzz/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=60 -use_value_profile=1 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="build-fuzz/found/${target}_" \
        "${options[@]}" "build-fuzz/corpus/$target" "${from[@]}" >"$log" 2>&1; then
        printf 'fuzz %s: nothing found in %s s; %s; %s\n' "$target" "$seconds" \
            "$(grep -o 'number_of_executed_units: .*' "$log")" \
            "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
    else
        printf 'fuzz %s: FOUND, see %s\n' "$target" "$log"
        return 1
    fi
}

# merge TARGET: the smallest inputs that cover what seeds, committed and grown corpus cover.
merge() {
    local target=$1 into=build-fuzz/merged/$1
    mapfile -t from < <(folders "$target")
    rm -rf "$into"
    mkdir -p "$into" "fuzz/corpus/$target"
    "build-fuzz/fuzz/fuzz_$target" -set_cover_merge=1 -use_counters=0 -max_len="$largest_kept" "$into" "${from[@]}" \
        "build-fuzz/corpus/$target" >"build-fuzz/merge_$target.log" 2>&1
    rm -rf "fuzz/corpus/$target"
    mkdir -p "fuzz/corpus/$target"
    find "$into" -type f -size -$((largest_kept + 1))c -exec cp {} "fuzz/corpus/$target" \;
    printf 'fuzz %s: %s inputs kept\n' "$target" "$(find "fuzz/corpus/$target" -type f | wc -l)"
}

status=0 running=0
for target in "${targets[@]}"; do
    if [ "$running" -ge "$at_once" ]; then
        wait -n || status=1
        running=$((running - 1))
    fi
    if $do_merge; then merge "$target" & else fuzz "$target" & fi
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
done
exit $status
