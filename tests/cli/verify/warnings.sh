# Warnings do not change the exit status; --strict makes an error of what ggml refuses.
cp "$FIXTURES/many-values.gguf" . && quench verify many-values.gguf && quench verify --strict many-values.gguf
