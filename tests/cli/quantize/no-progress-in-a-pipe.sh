# Nothing but messages on the standard error when it is no terminal.
cp "$FIXTURES/tiny.gguf" . && quench quantize tiny.gguf out.gguf Q8_0 2>&1 >/dev/null | wc -c
