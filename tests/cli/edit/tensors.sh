cp "$FIXTURES/tiny.gguf" .
quench edit -q --remove-tensor output_norm.weight --rename-tensor blk.0.attn_norm.weight=output_norm.weight tiny.gguf out.gguf
quench hash tiny.gguf | sed 's/tiny.gguf://' | sed -n 3p
quench hash out.gguf | sed 's/out.gguf://' | sed -n 2p
quench hash out.gguf | wc -l
