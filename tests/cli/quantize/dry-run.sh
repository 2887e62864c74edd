cp "$FIXTURES/tiny.gguf" . && quench quantize --dry-run tiny.gguf Q4_0
ls
