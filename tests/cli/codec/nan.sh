# Row 2, column 1 is NaN: an error, and no output.
$PYTHON -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<96f", *[1] * 65, float("nan"), *[1] * 30))' > x.f32
quench codec --type q4_0 --cols 32 encode x.f32 x.q4_0 || status=$?
ls
exit $status
