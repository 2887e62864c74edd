cp "$FIXTURES/header-cut.gguf" . && quench inspect header-cut.gguf
