# The output is the input under another spelling: refused, the input untouched.
$PYTHON -c 'import sys; sys.stdout.buffer.write(bytes(4 * 32))' > x.f32
ln -s x.f32 link
quench codec --type q8_0 --cols 32 encode x.f32 ./link || status=$?
wc -c < x.f32
exit $status
