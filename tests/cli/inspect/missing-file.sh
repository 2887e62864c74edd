quench inspect nowhere.gguf
