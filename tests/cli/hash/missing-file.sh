quench hash nowhere.gguf
