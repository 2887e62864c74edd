cp -r "$FIXTURES/tiny.gguf" "$FIXTURES/adapter" . && quench export -q --from-gguf tiny.gguf --out q8.gguf --dtype q8_0 &&
    quench export --from-gguf q8.gguf --out out.gguf --adapters adapter || status=$?
ls && exit $status
