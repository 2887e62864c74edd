quench quantize in.gguf
