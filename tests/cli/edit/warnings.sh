# What the input did not have and a loader would stumble over; another type.
cp "$FIXTURES/tiny.gguf" .
quench edit --remove general.architecture --set general.alignment=u32:64 tiny.gguf a.gguf >/dev/null
quench edit --set 'tokenizer.ggml.tokens=["a","b"]' --set llama.block_count=u16:1 --set general.architecture=mamba tiny.gguf b.gguf >/dev/null
quench edit --set general.architecture=u32:3 tiny.gguf c.gguf >/dev/null
