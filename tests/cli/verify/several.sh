cp "$FIXTURES/tiny.gguf" "$FIXTURES/nan.gguf" . && quench verify nan.gguf nowhere.gguf tiny.gguf
