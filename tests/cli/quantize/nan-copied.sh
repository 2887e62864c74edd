# A NaN is refused in a tensor that is only copied, too.
cp "$FIXTURES/nan.gguf" . && quench quantize nan.gguf out.gguf COPY || status=$?
ls
exit $status
