# A folder is checked as a training checkpoint.
cp -r "$FIXTURES/checkpoint" good
mkdir older && cp -r good older/prev && cp good/model.safetensors older
cp -r good swapped && cp "$FIXTURES/tiny.safetensors" swapped/model.safetensors
mkdir none && cp "$FIXTURES/tiny.gguf" none
for folder in good older swapped none; do
    quench verify $folder || echo "exit $?"
done
