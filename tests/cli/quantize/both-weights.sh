quench quantize --imatrix m --include-weights a --exclude-weights b in.gguf Q8_0
