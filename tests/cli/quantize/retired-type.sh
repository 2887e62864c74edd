quench quantize in.gguf out.gguf 4
