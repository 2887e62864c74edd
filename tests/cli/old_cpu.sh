#!/bin/sh
# old_cpu.sh QUENCH PYTHON FOLDER... — the cases of these folders on an emulated x86-64 processor without AVX:
# an instruction that leaked into generic code ends the program there. Skipped, with 77, without qemu.
set -eu
quench=$1 python=$2
shift 2
emulator="qemu-x86_64 -cpu core2duo"
command -v qemu-x86_64 >/dev/null || { echo "skipped: no qemu-x86_64; scripts/setup.sh full installs it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$emulator" "$quench" >"$folder/quench"
chmod +x "$folder/quench"
"$folder/quench" version | grep -q '^instruction sets:.*avx2' && { echo "the emulated processor has AVX2"; exit 1; }
"$python" "$(dirname "$0")/run_cases.py" --quench "$folder/quench" --timeout 300 "$@"
