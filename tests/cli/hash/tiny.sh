# Every digest against Python's, over the bytes at the places that the directory gives.
cp "$FIXTURES/tiny.gguf" . && quench hash tiny.gguf > lines
quench inspect --json tiny.gguf > tiny.json
$PYTHON - <<'PY'
import hashlib, json
data = open("tiny.gguf", "rb").read()
expected, whole = [], hashlib.sha256()
for t in json.load(open("tiny.json"))["tensors"]:
    part = data[t["offset"]:t["offset"] + t["bytes"]]
    whole.update(part)
    expected.append(f"sha256    {hashlib.sha256(part).hexdigest()}  tiny.gguf:{t['name']}")
expected.append(f"sha256    {whole.hexdigest()}  tiny.gguf")
print(open("lines").read().splitlines() == expected, len(expected))
PY
