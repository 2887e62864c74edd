cp "$FIXTURES/tiny.gguf" . && quench inspect tiny.gguf
