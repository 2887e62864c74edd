quench quantize in.gguf out.gguf Q4_KM
