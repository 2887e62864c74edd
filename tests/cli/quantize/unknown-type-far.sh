quench quantize in.gguf out.gguf better
