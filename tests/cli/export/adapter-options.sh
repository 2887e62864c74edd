quench export --from-gguf x.gguf --out y.gguf --alpha 16 || true
quench export --from-gguf x.gguf --out y.gguf --adapters z --ptqtp || true
quench export --from-gguf x.gguf --out y.gguf --adapters z --preset Q8_0 --dtype f16 || true
quench export --from-gguf x.gguf --out y.gguf --adapters z --scale nan || true
quench export --from-gguf x.gguf --out y.gguf --adapters z --alpha 1x
