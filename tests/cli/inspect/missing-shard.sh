cp "$FIXTURES/lonely-00001-of-00002.gguf" . && quench inspect lonely-00001-of-00002.gguf
