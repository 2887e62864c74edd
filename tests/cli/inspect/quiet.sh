quench inspect --quiet "$FIXTURES/tiny.gguf"
