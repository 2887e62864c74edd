cp "$FIXTURES/tiny.gguf" .
status=0
quench quantize --report ./tiny.gguf tiny.gguf out.gguf Q8_0 || status=$?
cmp tiny.gguf "$FIXTURES/tiny.gguf"
test ! -e out.gguf
exit $status
