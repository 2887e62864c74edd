# A pattern that would take for ever is given up at once.
cp "$FIXTURES/tiny.gguf" . && quench quantize --tensor-type '(([a-z0-9_.]+)+)+[^ -~]=q8_0' tiny.gguf Q4_0
