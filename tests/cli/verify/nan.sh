cp "$FIXTURES/nan.gguf" . && quench verify nan.gguf
