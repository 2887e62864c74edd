# No file that the run reads is replaced, whatever it is and whatever name it goes by.
refuse() {
    file=$1 status=0
    shift
    cp "$file" before && ln -s "$file" link
    quench quantize "$@" || status=$?
    cmp "$file" before && rm link && [ "$status" -eq 1 ] || exit 3
}
cp "$FIXTURES/tiny.gguf" "$FIXTURES/matrix.dat" "$FIXTURES/tiny.safetensors" . && printf 'attn_v = q8_0\n' >recipe
printf 'attn_v=q8_0\n' >types && cp "$FIXTURES/model.safetensors.index.json" "$FIXTURES"/model-*.safetensors .
refuse matrix.dat --imatrix matrix.dat tiny.gguf link Q8_0
refuse recipe --recipe recipe tiny.gguf recipe Q8_0
refuse types --tensor-type-file types tiny.gguf ./types Q8_0
refuse tiny.gguf --metadata-from tiny.gguf tiny.safetensors link F16
refuse model.safetensors.index.json --metadata-from tiny.gguf model.safetensors.index.json link F16
refuse recipe --report link --recipe recipe tiny.gguf out.gguf Q8_0
refuse matrix.dat --report matrix.dat --imatrix matrix.dat tiny.gguf out.gguf Q8_0
ls
