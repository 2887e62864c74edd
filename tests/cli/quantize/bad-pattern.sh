cp "$FIXTURES/tiny.gguf" . && quench quantize --tensor-type 'ffn_(down=q8_0' tiny.gguf Q4_0
