$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 256))' > x.f32
head -c 400 x.f32 > w.f32
quench codec --type q4_K --cols 256 --weights w.f32 encode x.f32 x.q4
