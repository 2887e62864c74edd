quench inspect --json "$FIXTURES/odd-names.gguf" | $PYTHON -c '
import json, sys
document = json.load(sys.stdin)
print([(e["key"], e["value"]) for e in document["metadata"]])
print([t["name"] for t in document["tensors"]])'
