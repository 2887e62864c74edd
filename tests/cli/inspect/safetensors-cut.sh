cp "$FIXTURES/cut.safetensors" . && quench inspect cut.safetensors
