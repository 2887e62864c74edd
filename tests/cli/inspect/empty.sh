cp "$FIXTURES/empty.gguf" . && quench inspect empty.gguf
