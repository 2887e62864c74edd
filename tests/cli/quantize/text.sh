# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/text.gguf" . && cp text.gguf before && quench quantize text.gguf out.gguf Q8_0 || status=$?
cmp text.gguf before && ls
exit $status
