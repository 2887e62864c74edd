quench extract "$FIXTURES/tiny.gguf" output_norm.weight - > /dev/full
