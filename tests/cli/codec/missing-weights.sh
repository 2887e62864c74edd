$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 256))' > x.f32
quench codec --type iq2_xxs --cols 256 encode x.f32 x.iq2
