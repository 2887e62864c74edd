cp "$FIXTURES/tiny.safetensors" . && quench edit --set a=u8:1 tiny.safetensors out.gguf
