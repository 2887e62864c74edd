# The index of a sharded model brings in all its files.
cp "$FIXTURES"/model* . && quench inspect model.safetensors.index.json
