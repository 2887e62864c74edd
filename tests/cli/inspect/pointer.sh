cp "$FIXTURES/pointer.gguf" . && quench inspect pointer.gguf
