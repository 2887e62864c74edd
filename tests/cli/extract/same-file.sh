cp "$FIXTURES/tiny.gguf" . && ln tiny.gguf link && quench extract tiny.gguf output_norm.weight link
