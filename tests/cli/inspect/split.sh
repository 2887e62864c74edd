# Any shard names the model.
cp "$FIXTURES"/split-* . && quench inspect -s split-00002-of-00002.gguf
