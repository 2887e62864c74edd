quench inspect --json "$FIXTURES/tiny.safetensors" | $PYTHON -c '
import json, sys
model = json.load(sys.stdin)
print(model["format"], model["sizes"])
print(model["metadata"], model["tensors"])'
