# A block type is decoded to f32: the same values as `codec decode` gives.
cp "$FIXTURES/tiny.gguf" . && quench quantize -q tiny.gguf q8.gguf Q8_0
quench extract q8.gguf blk.0.attn_v.weight v.npy && quench extract --raw q8.gguf blk.0.attn_v.weight v.q8_0
quench codec --type q8_0 --cols 64 decode v.q8_0 v.f32
tail -c +129 v.npy | cmp - v.f32 && echo same
head -c 128 v.npy | tail -c +11 | tr -s ' '
