# A whole run; the output is a model of the new type, without anything left beside it.
cp "$FIXTURES/tiny.gguf" . && quench quantize tiny.gguf out.gguf Q8_0 | sed 's/time .*/time/; s/memory .*/memory/'
ls
quench inspect out.gguf
