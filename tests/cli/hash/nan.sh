# A digest is one of bytes: whatever the values are.
quench hash --no-tensors "$FIXTURES/nan.gguf" | wc -l
