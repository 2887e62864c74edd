quench extract "$FIXTURES/tiny.gguf" output_norm.weight nowhere/a.npy
