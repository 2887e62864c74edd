# A split model has the digest of the whole one.
cp "$FIXTURES"/tiny.gguf "$FIXTURES"/split-* .
quench hash --no-tensors tiny.gguf | cut -d' ' -f5 > a
quench hash --no-tensors split-00001-of-00002.gguf | cut -d' ' -f5 > b
cmp a b && echo same
