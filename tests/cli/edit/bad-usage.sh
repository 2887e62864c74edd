cp "$FIXTURES/tiny.gguf" .
try() { quench edit "$@" || echo "status $?" >&2; }
try tiny.gguf out.gguf
try --set a=u8:1 tiny.gguf
try --set a tiny.gguf out.gguf
try --set =1 tiny.gguf out.gguf
try --rename a= tiny.gguf out.gguf
try --set-file a=missing tiny.gguf out.gguf
ls
