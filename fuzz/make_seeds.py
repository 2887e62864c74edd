#!/usr/bin/env python3
"""make_seeds.py — write the seeds of the codec targets: a piece of each type's goldens, and each type
with a piece of the golden inputs, with and without weights; and of the model room's targets: a small
importance matrix in both forms, recipes."""
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "goldens"


def dtypes():
    """(id, lower-case name, elements, bytes) of dtypes.def."""
    for line in (ROOT / "src/dtype/dtypes.def").read_text().splitlines():
        row = re.match(r'QN_DTYPE_ROW\(\s*(\d+), \w+,\s*"(\w+)",\s*(\d+),\s*(\d+)', line)
        if row:
            yield int(row[1]), row[2].lower(), int(row[3]), int(row[4])


def write(target, name, data):
    folder = ROOT / "fuzz" / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def imatrix_gguf(entries):
    """A matrix in GGUF form: name, sums, counts."""
    keys = [("general.type", 8, string("imatrix")),
            ("imatrix.datasets", 9, struct.pack("<IQ", 8, 1) + string("text.txt")),
            ("imatrix.chunk_count", 4, struct.pack("<I", 3)),
            ("imatrix.chunk_size", 4, struct.pack("<I", 512))]
    infos, data = b"", b""
    for name, sums, counts in entries:
        for suffix, values in ((".in_sum2", sums), (".counts", counts)):
            ne = (len(values) // len(counts), len(counts))
            infos += string(name + suffix) + struct.pack("<IQQIQ", 2, *ne, 0, len(data))
            data += struct.pack("<%df" % len(values), *values)
            data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(entries), len(keys))
    for key, kind, value in keys:
        head += string(key) + struct.pack("<I", kind) + value
    head += infos
    return head + bytes(-len(head) % 32) + data


def imatrix_dat(entries):
    out = struct.pack("<i", len(entries))
    for name, sums, counts in entries:
        out += struct.pack("<i", len(name)) + name.encode()
        out += struct.pack("<ii%df" % len(sums), 3, len(sums), *sums)
    return out + struct.pack("<ii", 3, 8) + b"text.txt"


def patch_target():
    """Journals of edits in place, whose digests the target makes right, and files in each state."""
    head, inserted, body = b"new head" * 16, b"NEW HEAD" * 12, bytes(range(200))
    for name, new, n_inserted, file in [
            ("replace-old", head, 0, b"o" * 128 + body),
            ("replace-half", head, 0, head[:50] + b"o" * 78 + body),
            ("insert-old", inserted, 32, b"o" * 64 + body),
            ("insert-half", inserted, 32, bytes(32) + b"o" * 64 + body),
            ("insert-done", inserted, 32, inserted + body)]:
        n_file = len(new) - n_inserted + len(body)
        journal = b"QNPATCH1" + struct.pack("<QQQ", n_file, n_inserted, len(new)) + bytes(32) + new
        write("patch", name, b"\x0f" + struct.pack("<H", len(journal)) + journal + file)
        write("patch", name + "-wrong", b"\x07" + struct.pack("<H", len(journal)) + journal + file[:-1])


def model_targets():
    entries = [("blk.0.attn_q.weight", [1.0, 2.0, 3.0, 4.0], [512.0]),
               ("blk.0.ffn_up_exps.weight", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [512.0, 0.0, 7.5])]
    write("imatrix", "gguf", imatrix_gguf(entries))
    write("imatrix", "dat", imatrix_dat(entries))
    write("imatrix", "dat.short", imatrix_dat(entries[:1])[:-16])
    write("recipe", "two", b"# comment\n^blk\\.0\\.attn_v = q6_K\n\nffn_(up|gate)=Q4_K\r\n")
    write("recipe", "equals", b"a=b=f16")
    write("recipe", "bad", b"attn_v q6_K\n")


def safetensors(tensors):
    """`tensors`: name, shape; ascending values."""
    members, data = [], b""
    for name, shape in tensors:
        n = 1
        for d in shape:
            n *= d
        members.append('"%s":{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}'
                       % (name, list(shape), len(data), len(data) + 4 * n))
        data += struct.pack("<%df" % n, *[(i * 29 % 61 - 30) / 64 for i in range(n)])
    head = ("{" + ",".join(members) + "}").encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


def adapter_gguf(tensors):
    keys = [("general.type", "adapter"), ("adapter.type", "lora"), ("general.architecture", "llama")]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys) + 1)
    for key, text in keys:
        head += string(key) + struct.pack("<I", 8) + string(text)
    head += string("adapter.lora.alpha") + struct.pack("<If", 6, 8.0)
    data = b""
    for name, ne in tensors:
        n = 1
        for d in ne:
            n *= d
        head += string(name) + struct.pack("<I", len(ne)) + struct.pack("<%dQ" % len(ne), *ne)
        head += struct.pack("<IQ", 0, len(data))
        data += struct.pack("<%df" % n, *[(i * 31 % 59 - 29) / 64 for i in range(n)]) + bytes(-4 * n % 32)
    return head + bytes(-len(head) % 32) + data


def adapters():
    """Adapters of the small model of fuzz_adapter.c: eight inputs, experts with six rows."""
    def seed(form, flags, config, weights):
        return bytes([form, flags]) + struct.pack("<H", len(config)) + config.encode() + weights
    m = "base_model.model.model.layers.0."
    q = [(m + "self_attn.q_proj.lora_A.weight", (2, 8)), (m + "self_attn.q_proj.lora_B.weight", (8, 2))]
    dora = q + [(m + "self_attn.q_proj.lora_magnitude_vector", (8,))]
    bias = q + [(m + "self_attn.q_proj.lora_B.bias", (8,))]
    embedding = [("base_model.model.model.embed_tokens.lora_embedding_A", (2, 10)),
                 ("base_model.model.model.embed_tokens.lora_embedding_B", (8, 2)),
                 ("base_model.model.model.norm.weight", (8,))]
    experts = [(m + "mlp.experts.base_layer.lora_A.weight", (2, 8)), (m + "mlp.experts.base_layer.lora_B.weight", (12, 2)),
               (m + "mlp.experts.lora_A.weight", (4, 6)), (m + "mlp.experts.lora_B.weight", (8, 4)),
               (m + "block_sparse_moe.experts.1.w1.lora_A.weight", (1, 8)), (m + "block_sparse_moe.experts.1.w1.lora_B.weight", (6, 1))]
    lora = '{"peft_type": "LORA", "lora_alpha": 4}'
    write("adapter", "peft", seed(0, 0, '{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_rslora": true}', safetensors(q)))
    write("adapter", "peft-dora", seed(0, 0, '{"peft_type": "LORA", "lora_alpha": 4, "use_dora": true}', safetensors(dora)))
    write("adapter", "peft-bias", seed(0, 0, lora, safetensors(bias)))
    write("adapter", "peft-embedding", seed(0, 2, lora, safetensors(embedding)))
    write("adapter", "peft-experts", seed(0, 0, lora, safetensors(experts[:4])))
    write("adapter", "peft-one-expert", seed(0, 1, "", safetensors(experts[4:])))
    write("adapter", "mlx", seed(0, 0, '{"lora_parameters": {"scale": 2.0}}',
                                 safetensors([("model.layers.0.self_attn.k_proj.lora_a", (8, 3)),
                                              ("model.layers.0.self_attn.k_proj.lora_b", (3, 4)),
                                              ("model.layers.0.mlp.switch_mlp.down_proj.lora_a", (2, 2, 6)),
                                              ("model.layers.0.mlp.switch_mlp.down_proj.lora_b", (2, 8, 2))])))
    write("adapter", "trainer", seed(2, 0, '{"lora_alpha": 16}', safetensors([("layers.0.v.lora_a", (2, 8)),
                                                                             ("layers.0.v.lora_b", (4, 2))])))
    write("adapter", "gguf", seed(1, 0, "", adapter_gguf([
        ("blk.0.attn_q.weight.lora_a", (8, 2)), ("blk.0.attn_q.weight.lora_b", (2, 8)),
        ("blk.0.ffn_up_exps.weight.lora_a", (8, 1, 2)), ("blk.0.ffn_up_exps.weight.lora_b", (1, 6, 2))])))
    write("adapter", "gguf-embedding", seed(1, 2, "", adapter_gguf([
        ("token_embd.weight.lora_a", (2, 10)), ("token_embd.weight.lora_b", (2, 8))])))


def main():
    model_targets()
    patch_target()
    adapters()
    inputs = (GOLDENS / "inputs.f32").read_bytes()
    weights = (GOLDENS / "imatrix.f32").read_bytes()
    for number, name, elems, n_bytes in dtypes():
        tag = bytes([number + 1])
        golden = GOLDENS / f"{name}.imat.bin"
        if not golden.exists():
            golden = GOLDENS / f"{name}.bin"
        blocks = golden.read_bytes() if golden.exists() else inputs
        write("codec_decode", name, tag + blocks[: 3 * n_bytes])
        n = 4 * max(elems, 64)
        values = inputs[4 * 1024 * 2 :][:n]
        write("codec_encode", name, tag + b"\0" + values)
        write("codec_encode", f"{name}.weights", tag + b"\1" + weights[:n] + values)


main()
