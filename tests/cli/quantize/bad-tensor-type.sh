quench quantize --tensor-type 'ffn_down' in.gguf Q8_0 || echo "exit $?"
quench quantize --tensor-type 'ffn_down=q9' in.gguf Q8_0
