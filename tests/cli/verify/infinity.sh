cp "$FIXTURES/infinity.gguf" . && quench verify infinity.gguf
