# Too little memory says nothing of the file.
cp "$FIXTURES/tiny.gguf" m.gguf
quench verify --memory 1K m.gguf || echo "status $?"
quench verify --memory 1K --json m.gguf | grep -E '"is_|Memory' || true
quench verify m.gguf
