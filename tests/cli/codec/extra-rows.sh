$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 64))' > x.f32
quench codec --type q8_0 --cols 32 --rows 1 encode x.f32 x.q8_0
