# A file system of 12 KiB; needs root to make one.
mkdir small && mount -t tmpfs -o size=12k none small 2>/dev/null ||
    { echo "needs root and a mount: the full disk is not tested" >&2; exit 77; }
trap 'umount small' EXIT
cp "$FIXTURES/tiny.gguf" . && quench quantize tiny.gguf small/out.gguf F32 || status=$?
ls small
exit $status
