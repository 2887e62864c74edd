# A write that the system refuses while running: said, and nothing stays. (ulimit counts 512 bytes.)
cp "$FIXTURES/tiny.gguf" . && ulimit -f 8 && quench quantize tiny.gguf out.gguf Q8_0 2> text || status=$?
sed 's/[0-9][0-9]* bytes/N bytes/' text >&2
rm text && ls
exit $status
