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
