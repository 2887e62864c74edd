# A failing run leaves what was there before.
cp "$FIXTURES/nan.gguf" . && echo old > out.gguf && quench quantize nan.gguf out.gguf Q8_0 || status=$?
cat out.gguf && ls
exit $status
