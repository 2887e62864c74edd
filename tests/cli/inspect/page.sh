cp "$FIXTURES/page.gguf" . && quench inspect page.gguf
