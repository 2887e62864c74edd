cp "$FIXTURES/tiny.gguf" . && cp tiny.gguf before
for out in tiny.gguf ./tiny.gguf "$PWD/tiny.gguf" link.gguf hard.gguf; do
    [ -e link.gguf ] || ln -s tiny.gguf link.gguf
    [ -e hard.gguf ] || ln tiny.gguf hard.gguf
    quench quantize tiny.gguf "$out" Q8_0 2>message && echo "accepted $out" || echo "exit $?"
    sed "s|$PWD|PWD|g" message
    cmp tiny.gguf before
done
