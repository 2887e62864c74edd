# Without OUT the output stands beside IN; the type in any case, or as a number.
mkdir models && cp "$FIXTURES/tiny.gguf" models/ && quench quantize --quiet models/tiny.gguf q4_0 2
quench quantize --quiet models/tiny.gguf 7
ls models
