cp "$FIXTURES/archive.gguf" . && quench inspect archive.gguf
