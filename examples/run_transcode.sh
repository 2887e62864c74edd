#!/bin/sh
# run_transcode.sh TRANSCODE QUENCH MODEL — example 07 on the model widened to F16: its output must be
# that of `quench export --dtype q8_0`, byte for byte. 77: no model.
set -e
[ -f "$3" ] || { echo "no model: scripts/setup.sh test"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" quantize -q --allow-requantize "$3" "$folder/f16.gguf" F16
"$1" "$folder/f16.gguf" "$folder/example.gguf"
"$2" export -q --from-gguf "$folder/f16.gguf" --out "$folder/export.gguf" --dtype q8_0
cmp "$folder/example.gguf" "$folder/export.gguf"
