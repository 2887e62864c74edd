quench quantize nowhere.gguf out.gguf Q8_0 || status=$?
ls
exit $status
