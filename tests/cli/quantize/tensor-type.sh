# ECMAScript: searched anywhere, alternation, classes, anchors; the first match counts.
cp "$FIXTURES/tiny.gguf" . && cat > types <<'TYPES'
ATTN_V=q4_1   blk\.\d+\.ffn_(?:down|up)\.weight$=q5_0
TYPES
quench quantize --dry-run --json --tensor-type-file types tiny.gguf Q4_0 > plan.json
$PYTHON -c 'import json; print(*[(t["name"], t["target"]) for t in json.load(open("plan.json"))["tensors"]], sep="\n")'
