quench codec --type q8_9 --cols 32 encode a b
