mkdir folder.gguf && quench quantize folder.gguf out.gguf Q8_0
