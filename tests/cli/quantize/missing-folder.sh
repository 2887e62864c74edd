cp "$FIXTURES/tiny.gguf" . && quench quantize tiny.gguf nowhere/out.gguf Q8_0
