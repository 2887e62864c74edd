for override in key key=int:x key=bool:maybe key=float:1x key=list:1 =int:1; do
    quench quantize --override-kv "$override" in.gguf Q8_0 || echo "exit $?"
done
