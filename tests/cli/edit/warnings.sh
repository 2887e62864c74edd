cp "$FIXTURES/tiny.gguf" . && quench edit --remove general.architecture --set general.alignment=u32:64 tiny.gguf out.gguf >/dev/null
