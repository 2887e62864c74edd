# Safetensors hold no GGUF metadata: the message names the file once, and the option that helps.
cp "$FIXTURES/tiny.safetensors" . && quench quantize tiny.safetensors out.gguf Q8_0 2>message || status=$?
cat message >&2
ls
exit $status
