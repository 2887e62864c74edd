mkdir folder.gguf && quench inspect folder.gguf
