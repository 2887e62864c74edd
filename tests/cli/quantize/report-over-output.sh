cp "$FIXTURES/tiny.gguf" .
quench quantize --report out.gguf tiny.gguf out.gguf Q8_0
