# Through the standard input and output; f16 of 1.0 and -2.0 are 3c00 and c000.
$PYTHON -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<4f", 1, -2, 0, 0.5))' |
    quench codec --type f16 --cols 2 encode - - | od -An -v -tx1
