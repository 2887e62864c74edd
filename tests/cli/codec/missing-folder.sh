$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 32))' > x.f32
quench codec --type q8_0 --cols 32 encode x.f32 nowhere/x.q8_0
