# The document parses and holds the numbers of the table.
cp "$FIXTURES/tiny.gguf" . && quench inspect --json tiny.gguf
