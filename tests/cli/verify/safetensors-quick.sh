cp "$FIXTURES/odd.safetensors" "$FIXTURES"/model* . && quench verify --quick odd.safetensors model.safetensors.index.json
