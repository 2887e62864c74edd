cp "$FIXTURES/many-values.gguf" . && quench inspect many-values.gguf
