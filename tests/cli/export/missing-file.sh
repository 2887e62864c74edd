quench export --from-gguf nowhere.gguf --out out.gguf
