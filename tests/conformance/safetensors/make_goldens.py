#!/usr/bin/env python3
"""make_goldens.py OUTDIR — files as the official Python package `safetensors` 0.8.0 writes them.

The committed files under goldens/ were made by this script; a test writes the same tensors with
quench and compares byte for byte. At most one metadata entry each: the package's own order of
several is random.
"""
import os
import random
import sys

from safetensors import TensorSpec, serialize

BITS = {"bool": 8, "float4_e2m1fn_x2": 8, "uint8": 8, "int8": 8, "float8_e5m2": 8,
        "float8_e4m3fn": 8, "float8_e8m0fnu": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8,
        "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16, "int32": 32, "uint32": 32,
        "float32": 32, "complex64": 64, "float64": 64, "int64": 64, "uint64": 64}


def write(path, tensors, metadata=None):
    """tensors: name -> (dtype, shape); data are drawn from the name."""
    import ctypes
    keep, specs = [], {}
    for name, (dtype, shape) in tensors.items():
        n = BITS[dtype] // 8
        for d in shape:
            n *= d
        data = random.Random(name).randbytes(n)
        keep.append(ctypes.create_string_buffer(data, max(n, 1)))
        specs[name] = TensorSpec(dtype=dtype, shape=list(shape), data_ptr=ctypes.addressof(keep[-1]),
                                 data_len=n)
    with open(path, "wb") as f:
        f.write(bytes(serialize(specs, metadata=metadata)))


def main():
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print(__doc__.strip())
        return 2
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    write(os.path.join(out, "empty.safetensors"), {})
    write(os.path.join(out, "metadata-only.safetensors"), {}, {"format": "pt"})
    write(os.path.join(out, "every-type.safetensors"),
          {"t." + dtype: (dtype, (3, 4)) for dtype in reversed(BITS)}, {"format": "pt"})
    write(os.path.join(out, "order.safetensors"),
          {"b": ("float32", (2,)), "a": ("float32", (3,)), "B": ("float32", ()), "a.b": ("bool", (5,)),
           "aa": ("int64", (1, 2)), "z": ("uint64", (0,)), "\u00e9": ("float32", (1,))})
    write(os.path.join(out, "empty-tensors.safetensors"),
          {"z": ("uint64", (0,)), "a": ("float32", (2,)), "m": ("float16", (3, 0, 2)),
           "scalar": ("bfloat16", ()), "last": ("bool", (0,))})
    write(os.path.join(out, "names.safetensors"),
          {"\u0432\u0435\u0441.\u043c\u043e\u0434\u0435\u043b\u044c": ("uint8", (2,)),
           "\u5c42.0.\u6743\u91cd": ("uint8", (3,)), "\U0001f999": ("uint8", (1,)),
           "quote\"back\\slash/": ("uint8", (1,)), "tab\tline\nret\r\b\f\x01\x1f\x7f": ("uint8", (1,)),
           "nul\0inside": ("uint8", (1,)), "\u0627\u0644\u0648\u0632\u0646": ("uint8", (4,))},
          {"k\"\n": "v\\\t\u00fc\U0001f999\x02"})


if __name__ == "__main__":
    sys.exit(main())
