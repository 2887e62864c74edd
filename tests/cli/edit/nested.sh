# An array of arrays, which ggml refuses, may go or be replaced, but not stay.
cp "$FIXTURES/many-values.gguf" m.gguf
try() { quench edit --quiet "$@" out.gguf || echo "status $?" >&2; }
try --remove nested m.gguf
quench verify --strict out.gguf
try --set nested='u8[]:[1]' m.gguf
quench inspect out.gguf | grep nested
quench verify --strict out.gguf
try --set general.name=string:x m.gguf
try --set general.name=string:x --remove nested m.gguf
try --remove nested --remove nested m.gguf
