cp -r "$FIXTURES/tiny.gguf" "$FIXTURES/adapter" . && quench export --from-gguf tiny.gguf --out out.gguf --adapters adapter |
    grep -v '^  time\|^  memory' && quench export --from-gguf out.gguf --out again.gguf --adapters adapter --scale 0.5 >/dev/null
