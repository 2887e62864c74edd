# Without the wait for the disk: the same file, and no temporary one beside it.
quench quantize --quiet "$FIXTURES/tiny.gguf" synced.gguf Q8_0
quench quantize --quiet --no-sync "$FIXTURES/tiny.gguf" quick.gguf Q8_0
cmp synced.gguf quick.gguf && ls
