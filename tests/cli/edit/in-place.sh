# Room made once serves later edits; tensors keep their bytes; what cannot be done in place is said.
quench edit --quiet --reserve 1K --set general.name=first "$FIXTURES/tiny.gguf" m.gguf
quench hash m.gguf > before
quench edit --in-place --set general.name="a longer name than the first" m.gguf
quench edit --in-place --dry-run --remove general.name m.gguf
quench edit --in-place --json --rename-tensor output_norm.weight=norm --set a='u8[]:[1,2]' m.gguf
quench inspect --full m.gguf | grep -E 'general.name|norm |quench|^a '
quench hash m.gguf | sed s/:norm/:output_norm.weight/ > after
diff before after | grep -v '  m.gguf$' || true
for wrong in "--remove-tensor norm" "--set general.alignment=64" "--rename a=quench.reserved" "--set-file general.file_type=before"; do
    quench edit --in-place $wrong m.gguf || echo "status $?" >&2
done
quench edit --in-place --set a=u8:1 --sha256 m.gguf || echo "status $?" >&2
quench edit --in-place --set a=u8:1 m.gguf other.gguf || echo "status $?" >&2
ls
