cp "$FIXTURES/tiny.gguf" . && quench export --from-gguf tiny.gguf
