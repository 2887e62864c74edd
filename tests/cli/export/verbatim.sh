# Without a target the file is copied byte for byte.
cp "$FIXTURES/tiny.gguf" . && quench export -q --from-gguf tiny.gguf --out copy.gguf && cmp tiny.gguf copy.gguf
