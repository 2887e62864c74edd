quench extract --raw "$FIXTURES/tiny.gguf" output_norm.weight - | wc -c
