cp "$FIXTURES"/model-0000* . && head -c 180 model-00001-of-00002.safetensors > short.safetensors
printf '{"weight_map":{"a.weight":"short.safetensors","b.weight":"gone.safetensors"}}' > m.index.json
quench verify m.index.json
