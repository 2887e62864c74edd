cp "$FIXTURES/truncated.gguf" . && quench inspect truncated.gguf
