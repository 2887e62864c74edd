quench verify nowhere.gguf
