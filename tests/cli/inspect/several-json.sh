cp "$FIXTURES/tiny.gguf" . && quench inspect -s --json tiny.gguf nowhere.gguf tiny.gguf |
    $PYTHON -c 'import json, sys; print([m["path"] for m in json.load(sys.stdin)])'
