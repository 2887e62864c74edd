# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/pointer.gguf" . && cp pointer.gguf before && quench quantize pointer.gguf out.gguf Q8_0 || status=$?
cmp pointer.gguf before && ls
exit $status
