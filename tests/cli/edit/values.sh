# Values that the type cannot hold, and names that are not there: refused, nothing is written.
cp "$FIXTURES/tiny.gguf" .
try() { quench edit -q "$@" tiny.gguf out.gguf || echo "status $?" >&2; }
try --set llama.block_count=4294967296
try --set llama.block_count=-1
try --set llama.block_count=1.5
try --set llama.block_count=one
try --set x=i8:-129
try --set x=f32:1e39
try --set x=bool:yes
try --set 'x=u8[]:[1,256]'
try --set 'x=u8[]:[1'
try --set x=1
try --set split.no=0
try --set general.alignment=u32:33
echo 5 > number
try --set-file llama.block_count=number
try --remove nothing
try --rename nothing=something
try --rename general.name=general.architecture
try --remove-tensor nothing
try --rename-tensor token_embd.weight=output_norm.weight
try --rename-tensor token_embd.weight=$(printf '%064d' 0)
ls
