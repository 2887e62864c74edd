cp "$FIXTURES/nan.gguf" "$FIXTURES/many-values.gguf" . && quench verify --json nan.gguf many-values.gguf || status=$?
exit $status
