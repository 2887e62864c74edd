# Another spelling of the same file.
cp "$FIXTURES/tiny.gguf" . && quench export --from-gguf tiny.gguf --out ./tiny.gguf --dtype f16 || status=$?
cmp tiny.gguf "$FIXTURES/tiny.gguf" && ls && exit $status
