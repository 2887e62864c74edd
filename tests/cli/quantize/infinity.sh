# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/infinity.gguf" . && cp infinity.gguf before && quench quantize infinity.gguf out.gguf Q8_0 || status=$?
cmp infinity.gguf before && ls
exit $status
