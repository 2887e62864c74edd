quench hash -c nowhere "$FIXTURES/tiny.gguf"
