# header + padding + tensors = size of the file, in the table and in JSON, against what stat says.
for file in tiny.gguf many-values.gguf no-final-padding.gguf odd-names.gguf tiny.safetensors; do
    size=$(stat -c %s "$FIXTURES/$file")
    quench inspect "$FIXTURES/$file" | tr -d , | awk -v size="$size" -v file="$file" '
        $1 == file { print file, ($2 + $3 + $4 == size && $5 == size && $6 == size) ? "adds up" : "WRONG", $7 }'
    quench inspect --json "$FIXTURES/$file" | $PYTHON -c '
import json, sys
sizes = json.load(sys.stdin)["sizes"]
total = sizes["header_bytes"] + sizes["padding_bytes"] + sizes["tensor_bytes"]
print(total == sizes["sum_bytes"] == sizes["file_bytes"] == int(sys.argv[1]))' "$size"
done
