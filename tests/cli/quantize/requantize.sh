cp "$FIXTURES/tiny.gguf" . && quench quantize -q tiny.gguf q8.gguf Q8_0
quench quantize q8.gguf q4.gguf Q4_0 || echo "exit $?"
quench quantize -q --allow-requantize q8.gguf q4.gguf Q4_0
ls
