# The structure is good.
cp "$FIXTURES/nan.gguf" . && quench verify --quick nan.gguf
