# Keys keep their order, types and places; new ones come last. Tensor data stay as they are.
cp "$FIXTURES/tiny.gguf" . && printf '{{ messages }}\n' > template
quench edit -q --set general.name='Other: one' --set llama.context_length=256 --set new.list='string[]:["a","b, c"]' \
    --set new.flag=bool:true --set-file tokenizer.chat_template=template --remove general.file_type \
    --rename llama.block_count=llama.blocks tiny.gguf out.gguf
quench inspect --full out.gguf | sed '1,3d'
for name in token_embd.weight blk.0.ffn_down.weight; do
    quench extract --raw tiny.gguf $name a && quench extract --raw out.gguf $name b && cmp a b
done
quench verify --strict out.gguf
