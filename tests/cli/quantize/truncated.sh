# One line that says what to do; nothing under the final name, the input untouched.
cp "$FIXTURES/truncated.gguf" . && cp truncated.gguf before && quench quantize truncated.gguf out.gguf Q8_0 || status=$?
cmp truncated.gguf before && ls
exit $status
