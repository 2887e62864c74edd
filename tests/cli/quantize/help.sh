quench quantize --help
