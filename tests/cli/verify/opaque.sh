# Types without a counterpart do not keep the others from being checked, hashed and written.
"$PYTHON" -c '
import json, struct, sys
def write(path, *tensors):
    head, data = {}, b""
    for name, kind, shape, raw in tensors:
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
mask, wide = ("mask", "BOOL", [3], b"\1\0\1"), ("wide", "F16", [2, 1, 2, 1, 2, 1, 2], struct.pack("<16e", *range(16)))
write("good.safetensors", ("w", "F32", [2], struct.pack("<2f", 1, 2)), mask, wide)
write("bad.safetensors", ("w", "F32", [2], struct.pack("<2f", 1, float("nan"))), mask, wide)
'
for name in good bad; do quench verify $name.safetensors || echo "status $?"; done
printf '\1\0\1' | sha256sum | cut -c1-64
quench hash good.safetensors | grep mask
quench extract --raw good.safetensors mask - | od -An -tx1
quench extract --raw good.safetensors wide - | od -An -tx2 | head -1
quench extract good.safetensors w - | od -An -tf4 -j128
quench extract good.safetensors mask x.npy || echo "status $?"
quench quantize good.safetensors out.gguf Q8_0 || echo "status $?"
