# A journal beside a file: nothing reads the file before the edit is finished, and a journal that is none is not believed.
cp "$FIXTURES/tiny.gguf" m.gguf
quench edit --recover m.gguf
printf junk > m.gguf.quench-patch
try() { quench "$@" > /dev/null || echo "status $?" >&2; }
try inspect m.gguf
try hash m.gguf
try edit --set a=u8:1 m.gguf out.gguf
try edit --in-place --set a=u8:1 m.gguf
try edit --recover m.gguf
try edit --recover --in-place m.gguf
cmp m.gguf "$FIXTURES/tiny.gguf"
ls
# Nor a model of which one part is half edited.
cp "$FIXTURES"/split-0000?-of-00002.gguf . && printf junk > split-00002-of-00002.gguf.quench-patch
try inspect split-00001-of-00002.gguf
try hash split-00001-of-00002.gguf
try extract split-00001-of-00002.gguf token_embd.weight x.npy
