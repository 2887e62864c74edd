mkdir -p run && cp "$FIXTURES/checkpoint/model.safetensors" run && quench checkpoint verify run
