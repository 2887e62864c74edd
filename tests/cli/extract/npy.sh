# f16 stays f16; the header is NumPy's, its length a multiple of 64.
cp "$FIXTURES/tiny.gguf" . && quench extract tiny.gguf token_embd.weight e.npy
quench extract --raw tiny.gguf token_embd.weight e.raw
$PYTHON - <<'PY'
import struct
npy, raw, file = (open(n, "rb").read() for n in ("e.npy", "e.raw", "tiny.gguf"))
n = struct.unpack("<H", npy[8:10])[0]
print(npy[:8], (10 + n) % 64, npy[10:10 + n].decode().strip())
print(npy[10 + n:] == raw == file[736:736 + 512])
PY
