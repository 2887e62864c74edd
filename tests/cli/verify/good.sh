cp "$FIXTURES/tiny.gguf" . && quench verify tiny.gguf && quench verify --quick --strict tiny.gguf
