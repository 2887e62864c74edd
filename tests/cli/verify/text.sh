cp "$FIXTURES/text.gguf" . && quench verify text.gguf
