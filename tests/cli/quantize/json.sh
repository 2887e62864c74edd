cp "$FIXTURES/tiny.gguf" . && quench quantize --json --sha256 tiny.gguf out.gguf Q8_0 > run.json
$PYTHON - <<'PY'
import hashlib, json
run = json.load(open("run.json"))
data = open("out.gguf", "rb").read()
print(run["outputs"][0]["sha256"] == hashlib.sha256(data).hexdigest(), run["output_bytes"] == len(data))
print(run["n_tensors"], run["n_converted"], run["n_copied"], run["preset"])
PY
