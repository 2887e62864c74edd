cp "$FIXTURES/zeros.gguf" . && quench inspect zeros.gguf
