# A scale beyond the largest half: ggml's bytes (infinity, 7c00) and a warning.
$PYTHON -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<32f", 1e30, *[0] * 31))' > x.f32
quench codec --type q8_0 --cols 32 encode x.f32 - | od -An -v -tx1 -N2
