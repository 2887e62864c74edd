quench export --out out.gguf
