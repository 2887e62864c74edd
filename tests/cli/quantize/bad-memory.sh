quench quantize --memory lots in.gguf out.gguf Q8_0
