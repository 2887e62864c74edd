# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/nan.gguf" . && cp nan.gguf before && quench quantize nan.gguf out.gguf Q8_0 || status=$?
cmp nan.gguf before && ls
exit $status
