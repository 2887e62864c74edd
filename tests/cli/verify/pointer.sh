cp "$FIXTURES/pointer.gguf" . && quench verify pointer.gguf
