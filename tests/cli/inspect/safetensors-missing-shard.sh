cp "$FIXTURES"/model-* "$FIXTURES"/lonely.safetensors* . && quench inspect lonely.safetensors.index.json
