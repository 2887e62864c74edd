quench verify --quiet "$FIXTURES/tiny.gguf"
