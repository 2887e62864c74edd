# Root may write anywhere, so that the program is run as somebody else then.
as=
if [ "$(id -u)" -eq 0 ]; then
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
    $as true 2>/dev/null || { echo "needs an ordinary user, or setpriv" >&2; exit 77; }
fi
chmod 755 . && cp "$(readlink -f "$(command -v quench)")" quench && cp "$FIXTURES/tiny.gguf" .
chmod 644 tiny.gguf && mkdir folder && chmod 555 folder
$as ./quench version >/dev/null 2>&1 || { echo "another user cannot run the program from here" >&2; exit 77; }
$as ./quench quantize tiny.gguf folder/out.gguf Q8_0 || status=$?
ls folder
exit $status
