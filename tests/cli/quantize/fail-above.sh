cp "$FIXTURES/tiny.gguf" . && quench quantize -q --fail-above cosine=0.1 tiny.gguf good.gguf Q4_0
quench quantize -q --fail-above max_error=0 tiny.gguf bad.gguf Q4_0 2>message || status=$?
sed 's/max_error [0-9.e-]*/max_error X/' message >&2
ls
exit $status
