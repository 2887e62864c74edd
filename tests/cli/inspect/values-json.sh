# Exact numbers, nested arrays, and long arrays cut unless --full is given.
quench inspect --json "$FIXTURES/many-values.gguf" > cut.json
quench inspect --json --full "$FIXTURES/many-values.gguf" > full.json
$PYTHON - <<'PY'
import json
cut = {e["key"]: e for e in json.load(open("cut.json"))["metadata"]}
full = {e["key"]: e for e in json.load(open("full.json"))["metadata"]}
print(cut["largest"]["value"], cut["yes"]["value"], cut["none"]["value"], cut["nested"]["value"])
print(len(cut["many"]["value"]), cut["many"]["n_elements"], cut["many"]["is_cut"])
print(full["many"]["value"] == list(range(100)), full["many"]["is_cut"])
PY
