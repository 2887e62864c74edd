cp "$FIXTURES/tiny.gguf" . && quench quantize -q --report report.json tiny.gguf out.gguf Q8_0
$PYTHON - <<'PY'
import json
for tensor in json.load(open("report.json"))["tensors"]:
    if tensor["target"] == "q8_0":
        print(tensor["name"], 0 < tensor["rmse"] < 0.01, tensor["cosine"] > 0.999)
PY
