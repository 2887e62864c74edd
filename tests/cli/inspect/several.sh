# One bad file among good ones: the others are shown, and the exit status says that something failed.
cp "$FIXTURES/tiny.gguf" . && quench inspect -s tiny.gguf nowhere.gguf tiny.gguf
