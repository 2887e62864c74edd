# The exact size is known beforehand.
cp "$FIXTURES/tiny.gguf" . && quench quantize --dry-run --json tiny.gguf out.gguf Q4_0 > plan.json
quench quantize -q tiny.gguf out.gguf Q4_0
$PYTHON - <<'PY'
import json, os
plan = json.load(open("plan.json"))
print(plan["output_bytes"] == plan["outputs"][0]["bytes"] == os.path.getsize("out.gguf"))
for tensor in plan["tensors"]:
    print(tensor["name"], tensor["source"], tensor["target"], tensor["ne"], tensor["rule"], tensor["bytes"])
PY
