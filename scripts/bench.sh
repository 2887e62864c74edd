#!/bin/bash
# bench.sh [PART...] — quench and its peer side by side, as ratios within one run: encode, weighted, fit,
# act, decode, matmul, grad, open (all of these without an argument); by name only, because they take long: jobs (whole
# files of >= 2 GiB, 20 minutes), memory (every preset on 4 GiB, 40 minutes). bench/README.md has the programs'
# own options, docs/benchmarks.md the figures and what they mean. BUDGET: seconds a row (0.2). For jobs and
# memory: GIB, the size of the model (2.2; 4.25), VOCAB, its rows in the embedding, PRESETS=A,B, FILES, the folder.
set -euo pipefail
case "${1:-}" in --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
programs=build/bench
peer=.deps/peer/bins/linux-x64
[ -f "$peer/libggml-base.so" ] || { echo "bench: the peer is not there; run scripts/setup.sh test" >&2; exit 1; }

# The fastest of ggml's builds that this processor runs, named once: the peer at its best.
variant=x64
if grep -qw avx2 /proc/cpuinfo; then variant=haswell; fi
if grep -qw avx512_vnni /proc/cpuinfo; then variant=zen4; fi
ggml=$programs/provider_ggml.so=$peer,$variant
quench=$programs/provider_quench.so
budget=${BUDGET:-0.2}
model=.deps/models/SmolLM2-135M-Instruct.Q4_1.gguf

python=.deps/venv/bin/python
files=${FILES:-build/bench/files}

# big_model GIB: the path of a generated F16 model of that size, made on first use.
big_model() {
    local path=$files/big-$1-${VOCAB:-131072}.gguf
    mkdir -p "$files"
    [ -f "$path" ] || "$python" bench/make_big_model.py --gib "$1" --vocab "${VOCAB:-131072}" "$path" >&2
    echo "$path"
}

part() {
    printf '\n== %s (ggml: %s)\n' "$1" "$variant"
    case $1 in
    encode) "$programs/codecs" encode -p -b "$budget" -r 32 "$ggml" "$quench" ;;
    weighted) "$programs/codecs" encode -i -b "$budget" -r 32 "$ggml" "$quench" ;;
    decode) "$programs/codecs" decode -b "$budget" "$ggml" "$quench" ;;
    matmul) "$programs/matmul" -j 1 -n 4096 -m 1,8,32,128 "$ggml" "$quench" ;;
    grad) "$programs/matmul" -j 1 -n 4096 -m 32,128,512 -l gp -t q4_K,q8_0,f16 "$quench" ;;
    fit) "$programs/fit" ;;
    act) "$programs/activations" ;;
    open)
        python3 bench/make_big_headers.py build/bench/files
        "$programs/open_gguf" -s 1 "$model" build/bench/files/*.gguf -- "$ggml" "$quench"
        ;;
    jobs)
        big=$(big_model "${GIB:-2.2}")
        "$python" bench/jobs.py --driver build/tests/parity/quantize_driver --peer "$peer" --model "$big" --work "$files" \
            ${PRESETS:+--presets "$PRESETS"}
        ;;
    memory)
        big=$(big_model "${GIB:-4.25}")
        "$python" bench/memory.py --quench build/quench --peer "$peer" --model "$big" --work "$files" \
            ${PRESETS:+--presets "$PRESETS"}
        ;;
    *) echo "bench: no part $1; there are encode, weighted, decode, matmul, grad, fit, act, open, jobs, memory" >&2; exit 2 ;;
    esac
}

if [ $# -eq 0 ]; then set -- encode weighted decode matmul grad fit act open; fi
for name in "$@"; do part "$name"; done
