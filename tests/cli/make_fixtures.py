#!/usr/bin/env python3
"""Writes the small models that the cases of tests/cli look at: make_fixtures.py FOLDER; or one that
takes seconds to quantize: make_fixtures.py --slow FILE.

Everything is made here from numbers in this file, with the standard library only, so that what a
case expects can be checked by reading."""
import pathlib
import struct
import sys

U16, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 2, 4, 5, 6, 7, 8, 9, 10
TYPE_F32, TYPE_F16 = 0, 1
ALIGNMENT = 32


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, payload):
    if kind == STRING:
        return string(payload)
    if kind == ARRAY:
        element, items = payload
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack({U16: "<H", I32: "<i", U32: "<I", F32: "<f", BOOL: "<B", U64: "<Q"}[kind], payload)


def padded(n_bytes):
    return -n_bytes % ALIGNMENT


def gguf(keys, tensors, final_padding=True):
    """`keys`: (name, kind, payload); `tensors`: (name, type, dimensions, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, kind, payload in keys:
        head += string(name) + struct.pack("<I", kind) + value(kind, payload)
    data = b""
    for name, dtype, ne, payload in tensors:
        head += string(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne)
        head += struct.pack("<IQ", dtype, len(data))
        data += payload + bytes(padded(len(payload)))
    if tensors and not final_padding:
        data = data[:len(data) - padded(len(tensors[-1][3]))]
    return head + bytes(padded(len(head))) + data


def numbers(n, seed):
    """n values in (-1, 1) from a small linear congruential generator."""
    out = []
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        out.append(seed / 2 ** 30 - 1)
    return out


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def f16(values):
    return struct.pack(f"<{len(values)}e", *values)


def llama_keys():
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Tiny"),
        ("llama.block_count", U32, 1),
        ("llama.context_length", U32, 128),
        ("llama.embedding_length", U32, 64),
        ("llama.attention.head_count", U32, 2),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, ["<s>", "</s>", "hello", "wörld"])),
        ("general.file_type", U32, 1),
    ]


def llama_tensors(bad=None):
    """One block of a model with rows of 64; `bad`: a number that replaces element 70 of ffn_down."""
    down = numbers(64 * 64, 5)
    if bad is not None:
        down[70] = bad
    return [
        ("token_embd.weight", TYPE_F16, (64, 4), f16(numbers(64 * 4, 1))),
        ("output_norm.weight", TYPE_F32, (64,), f32(numbers(64, 2))),
        ("blk.0.attn_norm.weight", TYPE_F32, (64,), f32(numbers(64, 3))),
        ("blk.0.attn_v.weight", TYPE_F16, (64, 64), f16(numbers(64 * 64, 4))),
        ("blk.0.ffn_down.weight", TYPE_F16, (64, 64), f16(down)),
    ]


def split_keys(number):
    return [("split.no", U16, number), ("split.count", U16, 2), ("split.tensors.count", I32, 5)]


def safetensors(tensors, metadata=None):
    """`tensors`: (name, dtype, shape, bytes)."""
    members = []
    if metadata:
        members.append('"__metadata__":{%s}' % ",".join(f'"{k}":"{v}"' for k, v in metadata))
    offset = 0
    for name, dtype, shape, payload in tensors:
        members.append('"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'
                       % (name, dtype, list(shape), offset, offset + len(payload)))
        offset += len(payload)
    header = ("{" + ",".join(members) + "}").encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + b"".join(t[3] for t in tensors)


def write_slow_model(path):
    """A model that keeps one thread busy for a second or more: 16 Mi weights."""
    block = f16(numbers(64 * 1024, 1))
    n_rows = 16 * 1024 * 1024 // 4096
    head = gguf([("general.architecture", STRING, "llama"), ("llama.block_count", U32, 1)],
                [("blk.0.ffn_down.weight", TYPE_F16, (4096, n_rows), b"")])
    with open(path, "wb") as file:
        file.write(head)
        for _ in range(256):
            file.write(block)


def write_adapter(folder):
    """A LoRA adapter of rank 2 for one matrix of tiny.gguf, as PEFT saves it."""
    folder.mkdir()
    module = "base_model.model.model.layers.0.self_attn.v_proj"
    (folder / "adapter_model.safetensors").write_bytes(safetensors([
        (module + ".lora_A.weight", "F32", (2, 64), f32([0.125 * x for x in numbers(2 * 64, 11)])),
        (module + ".lora_B.weight", "F32", (64, 2), f32([0.125 * x for x in numbers(64 * 2, 12)]))], [("format", "pt")]))
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}\n')


def write_checkpoint(folder):
    """A complete save of one AdamW step; the digests are XXH3-64 of the three files."""
    name = b"layers.0.q.weight"
    values = f32([1, 2, 3, 4])
    header = b'{"layers.0.q.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    header += b" " * (-len(header) % 8)
    files = {
        "model.safetensors": (struct.pack("<Q", len(header)) + header + values, "349bc65fbc2d225d"),
        "optimizer.fucina": (b"FZA3" + struct.pack("<IH", 1, len(name)) + name + struct.pack("<QQQ", 2, 2, 12)
                             + values + values, "ca477e2820482b8a"),
        "trainer_state.json": (b'{\n  "format": "fucina.training_checkpoint",\n  "version": 1,\n  "step": 12,\n'
                               b'  "seed": 34,\n  "lora_rank": 8,\n  "learning_rate": 0.001\n}\n',
                               "f7e8a5038c67a42d"),
    }
    folder.mkdir()
    for file, (data, _) in files.items():
        (folder / file).write_bytes(data)
    (folder / "quench_digests.json").write_text(
        '{"format":"quench.checkpoint_digests","version":1,"files":[%s]}\n' % ",".join(
            '{"name":"%s","bytes":%d,"xxh3_64":"%s"}' % (f, len(d), h) for f, (d, h) in files.items()))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--slow":
        write_slow_model(sys.argv[2])
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    tiny = gguf(llama_keys(), llama_tensors())
    files = {
        "tiny.gguf": tiny,
        "truncated.gguf": tiny[:len(tiny) - 5000],
        "header-cut.gguf": tiny[:100],
        "no-final-padding.gguf": gguf(
            [("general.architecture", STRING, "llama")],
            [("a.weight", TYPE_F32, (33,), f32(numbers(33, 7)))], final_padding=False),
        "nan.gguf": gguf(llama_keys(), llama_tensors(float("nan"))),
        "infinity.gguf": gguf(llama_keys(), llama_tensors(float("inf"))),
        "odd-names.gguf": gguf(
            [("general.architecture", STRING, "llama"),
             ("escape", STRING, "bell \a, red \x1b[31m, back\\slash, new\nline"),
             ("reversed", STRING, "a\u202eb"), ("cyrillic", STRING, "модель"),
             ("not.utf8", STRING, b"\xff\xfe")],
            [("wei\x1b[2Jght", TYPE_F32, (4,), f32([1, 2, 3, 4]))]),
        "many-values.gguf": gguf(
            [("general.architecture", STRING, "llama"), ("largest", U64, 2 ** 64 - 1),
             ("third", F32, 1 / 3), ("yes", BOOL, 1), ("none", ARRAY, (F32, [])),
             ("nested", ARRAY, (ARRAY, [(U32, [1, 2]), (U32, [3])])),
             ("long", STRING, "x" * 200), ("many", ARRAY, (U32, list(range(100))))], []),
        "empty.gguf": b"",
        "text.gguf": b"This is not a model.\n",
        "matrix.gguf": gguf(
            [("general.type", STRING, "imatrix"), ("imatrix.datasets", ARRAY, (STRING, ["text"])),
             ("imatrix.chunk_count", U32, 1), ("imatrix.chunk_size", U32, 512)],
            [("a.weight.counts", TYPE_F32, (1,), f32([512])),
             ("a.weight.in_sum2", TYPE_F32, (8,), f32(range(8)))]),
        "half-matrix.gguf": gguf(
            [("general.type", STRING, "imatrix")],
            [("a.weight.counts", TYPE_F32, (1,), f32([512]))]),
        "matrix.dat": struct.pack("<ii", 1, 8) + b"a.weight" + struct.pack("<ii", 2, 4)
                      + f32([1, 2, 3, 4]),
        "cut-matrix.dat": struct.pack("<ii", 1, 8) + b"a.weight" + struct.pack("<ii", 2, 4)
                          + f32([1, 2, 3]),
        "pointer.gguf": b"version https://git-lfs.github.com/spec/v1\n"
                        b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
                        b"size 12345\n",
        "page.gguf": b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n",
        "archive.gguf": b"PK\x03\x04" + bytes(60),
        "zeros.gguf": bytes(4096),
        "split-00001-of-00002.gguf": gguf(llama_keys() + split_keys(0), llama_tensors()[:2]),
        "split-00002-of-00002.gguf": gguf(split_keys(1), llama_tensors()[2:]),
        "lonely-00001-of-00002.gguf": gguf(llama_keys() + split_keys(0), llama_tensors()[:2]),
        "tiny.safetensors": safetensors(
            [("a.weight", "F32", (2, 3), f32(numbers(6, 1))),
             ("b.weight", "F16", (4,), f16(numbers(4, 2)))], [("format", "pt")]),
    }
    files["cut.safetensors"] = files["tiny.safetensors"][:-3]
    files["odd.safetensors"] = safetensors(
        [("flags", "BOOL", (3,), bytes(3)), ("scalar", "I64", (), bytes(8)),
         ("vierzig\\u00e4", "F8_E4M3", (2, 2), bytes(4))])
    half = safetensors([("b.weight", "F16", (4,), f16(numbers(4, 2)))])
    files["model-00001-of-00002.safetensors"] = files["tiny.safetensors"].replace(b"b.weight", b"c.weight")
    files["model-00002-of-00002.safetensors"] = half
    for index, second in (("model", "model-00002-of-00002"), ("lonely", "model-00003-of-00002")):
        files[f"{index}.safetensors.index.json"] = (
            '{"metadata":{"total_size":40},"weight_map":{"a.weight":"model-00001-of-00002.safetensors",'
            '"c.weight":"model-00001-of-00002.safetensors","b.weight":"%s.safetensors"}}' % second).encode()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "directory.gguf").mkdir()
    write_adapter(folder / "adapter")
    write_checkpoint(folder / "checkpoint")


if __name__ == "__main__":
    main()
