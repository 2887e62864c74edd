cp "$FIXTURES/tiny.gguf" . && ln -s tiny.gguf link
status=0
quench export --from-gguf tiny.gguf --out out.gguf --dtype q8_0 --report link || status=$?
cmp tiny.gguf "$FIXTURES/tiny.gguf"
exit $status
