# Neither changes a byte.
cp "$FIXTURES/tiny.gguf" .
quench quantize -q tiny.gguf a.gguf Q5_1 1
quench quantize -q --threads 5 --memory 8M tiny.gguf b.gguf Q5_1
quench quantize -q --isa scalar --memory 1G tiny.gguf c.gguf Q5_1 0
cmp a.gguf b.gguf && cmp a.gguf c.gguf && echo same
