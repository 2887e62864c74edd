quench quantize
