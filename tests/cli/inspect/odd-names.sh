# Control characters, reversed text and bytes that are no UTF-8 are shown escaped; scripts are not.
cp "$FIXTURES/odd-names.gguf" . && quench inspect odd-names.gguf
