cp "$FIXTURES/tiny.gguf" . && quench inspect -s tiny.gguf
