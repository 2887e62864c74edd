cp "$FIXTURES/tiny.gguf" .
status=0
quench quantize -q --report ./out.gguf tiny.gguf out.gguf Q8_0 || status=$?
quench verify -q out.gguf
exit $status
