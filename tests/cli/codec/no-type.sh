quench codec --cols 32 encode a b
