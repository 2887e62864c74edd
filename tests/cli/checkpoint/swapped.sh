cp -r "$FIXTURES/checkpoint" . && cp "$FIXTURES/tiny.safetensors" checkpoint/model.safetensors && quench checkpoint verify checkpoint
