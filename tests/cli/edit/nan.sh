# Values are not looked at: to edit is not to judge.
cp "$FIXTURES/nan.gguf" . && quench edit -q --set a=u8:1 nan.gguf out.gguf && quench extract --raw nan.gguf blk.0.ffn_down.weight a &&
    quench extract --raw out.gguf blk.0.ffn_down.weight b && cmp a b && echo same
