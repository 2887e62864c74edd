# A printed recipe gives the same bytes.
cp "$FIXTURES/tiny.gguf" . && quench quantize --print-recipe tiny.gguf Q4_0 > recipe
cat recipe
quench quantize -q tiny.gguf a.gguf Q4_0
quench quantize -q --recipe recipe tiny.gguf b.gguf Q4_0
cmp a.gguf b.gguf && echo same
