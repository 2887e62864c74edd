# Types and shapes that GGUF does not have.
cp "$FIXTURES/odd.safetensors" . && quench inspect odd.safetensors
