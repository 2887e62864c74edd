cp "$FIXTURES/tiny.gguf" . && quench edit --set a=u8:1 tiny.gguf ./tiny.gguf || status=$?
cmp tiny.gguf "$FIXTURES/tiny.gguf" && ls && exit $status
