cp "$FIXTURES/cut.safetensors" . && quench verify cut.safetensors
