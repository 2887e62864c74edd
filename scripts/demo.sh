#!/bin/sh
# demo.sh — quantize a real language model and measure it: inspects SmolLM2-135M-Instruct, widens it
# to F16, quantizes that to Q8_0 and Q4_0, and prints sizes, seconds and peak memory as a table.
# Needs build/quench and the model (scripts/setup.sh demo); writes into demo-out/.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

quench=build/quench
model=.deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
out=demo-out
[ -x "$quench" ] || { echo "demo: $quench is not built; run make" >&2; exit 1; }
[ -f "$model" ] || { echo "demo: $model is not there; run scripts/setup.sh demo" >&2; exit 1; }
echo "$sha256  $model" | sha256sum -c --quiet || { echo "demo: $model is damaged; remove it and run make demo again" >&2; exit 1; }
mkdir -p "$out"

# step NAME IN OUT ARGUMENTS...: one run; its row of the table goes to $out/rows. Seconds are of the
# whole command, the file safely on the disk; memory is what the system says it had at most.
step() {
    step_name=$1 step_in=$2 step_out=$3
    shift 3
    printf '$ quench quantize'
    printf ' %s' "$@"
    printf '\n'
    rm -f "$step_out"
    python3 - "$out/measured" "$quench" quantize "$@" <<'PYTHON'
import resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[2:], stderr=subprocess.STDOUT)
seconds = time.monotonic() - start
if done.returncode:
    sys.exit(done.returncode)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
with open(sys.argv[1], "w") as file:
    print(f"{seconds:.2f} {peak:.1f}", file=file)
PYTHON
    printf '%s %s %s %s\n' "$step_name" "$(wc -c <"$step_in")" "$(wc -c <"$step_out")" "$(cat "$out/measured")" >>"$out/rows"
    echo
}

printf '$ quench inspect --summary %s\n' "$model"
"$quench" inspect --summary "$model"
echo
: >"$out/rows"
f16=$out/SmolLM2-135M-Instruct.F16.gguf
step F16 "$model" "$f16" --allow-requantize "$model" "$f16" F16
for type in Q8_0 Q4_0; do
    step "$type" "$f16" "$out/SmolLM2-135M-Instruct.$type.gguf" \
        "$f16" "$out/SmolLM2-135M-Instruct.$type.gguf" "$type"
done
awk 'BEGIN { printf "%-6s %16s %16s %8s %10s %14s\n", "TYPE", "INPUT BYTES", "OUTPUT BYTES", "RATIO", "SECONDS", "PEAK MEMORY" }
     { printf "%-6s %16d %16d %8.3f %10.2f %10.1f MiB\n", $1, $2, $3, $3 / $2, $4, $5 }' "$out/rows"
rm -f "$out/rows" "$out/measured"
echo
echo "the outputs are in $out/"
