cp "$FIXTURES/tiny.gguf" . && quench edit --dry-run --rename-tensor output_norm.weight=norm --set a=u8:1 tiny.gguf out.gguf
ls
