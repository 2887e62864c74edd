cp "$FIXTURES/tiny.safetensors" . && quench inspect tiny.safetensors
