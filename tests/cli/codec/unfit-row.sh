$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 33))' > x.f32
quench codec --type q8_0 --cols 33 encode x.f32 x.q8_0
