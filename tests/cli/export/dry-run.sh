cp "$FIXTURES/tiny.gguf" . && quench export --dry-run --from-gguf tiny.gguf --dtype q8_0 && ls
