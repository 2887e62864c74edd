# A model without tensors, or one that loses all of them, is not written over either; nor is a name needed less.
cp "$FIXTURES/many-values.gguf" m.gguf && cp "$FIXTURES/tiny.gguf" t.gguf && cp t.gguf kept.gguf && ln -s m.gguf link.gguf
try() { quench edit --quiet "$@" || echo "status $?" >&2; }
try --remove nested m.gguf m.gguf
try --remove nested m.gguf ./link.gguf
try --remove-tensor token_embd.weight --remove-tensor blk.0.attn_v.weight --remove-tensor blk.0.ffn_down.weight --remove-tensor blk.0.attn_norm.weight --remove-tensor output_norm.weight t.gguf t.gguf
try --remove nested m.gguf ''
cmp m.gguf "$FIXTURES/many-values.gguf" && cmp t.gguf kept.gguf && ls
