quench quantize in.gguf out.gguf Q8_0 two
