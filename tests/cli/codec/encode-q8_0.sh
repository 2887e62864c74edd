# One block: the scale is the largest magnitude / 127 = 1.0 (half 3c00), then the numbers themselves.
$PYTHON -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<32f", 127, -127, *range(30)))' > x.f32
quench codec --type q8_0 --cols 32 encode x.f32 x.q8_0
od -An -v -tx1 x.q8_0
quench codec --type q8_0 --cols 32 --rows 1 decode x.q8_0 back.f32
cmp x.f32 back.f32 && echo same
