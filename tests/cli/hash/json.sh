quench hash --json "$FIXTURES/tiny.gguf" | $PYTHON -c '
import json, sys
(model,) = json.load(sys.stdin)
print(len(model["sha256"]), [t["name"] for t in model["tensors"]])'
