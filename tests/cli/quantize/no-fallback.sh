# Rows of 64 do not fit q4_K: a substitute is an error when asked to be, before anything is written.
cp "$FIXTURES/tiny.gguf" . && quench quantize --no-fallback tiny.gguf out.gguf Q4_K_M || status=$?
ls
exit $status
