cp "$FIXTURES/lonely-00001-of-00002.gguf" . && quench verify lonely-00001-of-00002.gguf
