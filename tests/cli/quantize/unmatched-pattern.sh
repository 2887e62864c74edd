cp "$FIXTURES/tiny.gguf" . && quench quantize --tensor-type 'ffn_dwon=q8_0' tiny.gguf Q4_0
