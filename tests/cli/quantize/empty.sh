# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/empty.gguf" . && cp empty.gguf before && quench quantize empty.gguf out.gguf Q8_0 || status=$?
cmp empty.gguf before && ls
exit $status
