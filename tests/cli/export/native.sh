cp "$FIXTURES/tiny.gguf" . && quench export --from-gguf tiny.gguf --out out.gguf --ptqtp-native
