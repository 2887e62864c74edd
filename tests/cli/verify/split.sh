cp "$FIXTURES"/split-* . && quench verify split-00002-of-00002.gguf
