cp "$FIXTURES/nan.gguf" . && quench export --from-gguf nan.gguf --out out.gguf --dtype f16 || status=$?
ls && exit $status
