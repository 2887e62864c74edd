cp "$FIXTURES/text.gguf" . && quench inspect text.gguf
