for layers in 1,,2 -1 x 1,; do
    quench quantize --prune-layers "$layers" in.gguf Q8_0 || echo "exit $?"
done
