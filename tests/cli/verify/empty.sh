cp "$FIXTURES/empty.gguf" . && quench verify empty.gguf
