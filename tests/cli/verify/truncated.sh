cp "$FIXTURES/truncated.gguf" . && quench verify truncated.gguf
