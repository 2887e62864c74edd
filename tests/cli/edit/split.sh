# A split model becomes one file, or stays split; both hold the same tensors.
cp "$FIXTURES"/split-0000?-of-00002.gguf . && ls
quench edit -q --set general.name=x split-00001-of-00002.gguf one.gguf
quench edit -q --set general.name=x --keep-split split-00001-of-00002.gguf two.gguf && ls two*
quench hash one.gguf | cut -d' ' -f1-5 > a && quench hash two-00001-of-00002.gguf | cut -d' ' -f1-5 | cmp - a && echo same
quench verify --strict one.gguf two-00001-of-00002.gguf
