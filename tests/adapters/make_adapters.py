#!/usr/bin/env python3
"""Write tiny base models and the same LoRA adapters in every form a user may bring.

usage  make_adapters.py OUT [--seed N] [--only CASE,CASE] [--list]
       make_adapters.py OUT --for BASE.gguf [--r 8] [--alpha 16] [--dtype F16] [--std 0.3]
           one adapter for every 2-D blk.* matrix of any real base (peft, gguf and seed forms; PEFT
           names and row order for the architectures llama, qwen2, qwen3)

Needs numpy and the PyPI package gguf. Every number comes from splitmix64, so the files are the same
on every machine and numpy version, and a C test can compute the same values.

OUT/base/<m>/hf/          config.json, model.safetensors (F32): Hugging Face names and row order
OUT/base/<m>/<m>-{f32,f16,bf16,q8_0}.gguf      the same weights as convert_hf_to_gguf would store them
                          m = llama (GQA, untied), tied (no output.weight), moe (Mixtral, 4 experts)
OUT/<case>/peft/          adapter_config.json, adapter_model.safetensors
OUT/<case>/gguf/adapter.gguf      what a correct convert_lora_to_gguf gives
OUT/<case>/seed/          adapters.safetensors in the seed's own naming, trainer_state.json
OUT/<case>/mlx/           adapters.safetensors and adapter_config.json as mlx-lm writes them
OUT/<case>/expect.json    base, verdict, why, forms present, per GGUF tensor: rank, scale
OUT/<case>/expect.safetensors     merged tensors (GGUF names and row order), W + s*B*A in f64, then F32

verdict: merge   every form present must give expect.safetensors within rounding
         full    only a tool that handles the extra part (DoRA, biases, saved modules, tied
                 embeddings) may merge; otherwise it must refuse and name that part
         refuse  a clear error, nothing written
"""
import argparse
import json
import os
import shutil
import zlib

import numpy as np
import gguf

T = gguf.GGMLQuantizationType
M64 = (1 << 64) - 1
ST_TYPE = {"F32": (np.float32, 4), "F16": (np.float16, 2), "BF16": (np.uint16, 2)}

DIMS = dict(hidden=256, heads=8, kv=4, hd=32, layers=2, vocab=320, theta=10000.0, eps=1e-5)
FFN = {"llama": 512, "tied": 512, "moe": 256}
EXPERTS, USED = 4, 2

ATTN = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
MLP = {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
SEED_NAME = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o",
             "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
LINEAR = list(ATTN) + list(MLP)


# ---------------------------------------------------------------- numbers

def splitmix(seed, n):
    """n values of splitmix64 started at seed."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed & M64) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def rand(seed, name, shape, std):
    """Uniform with standard deviation std; f32."""
    n = int(np.prod(shape))
    u = (splitmix((seed << 32) ^ zlib.crc32(name.encode()), n) >> np.uint64(11)).astype(np.float64)
    u = u * 2.0 ** -53
    return ((2 * u - 1) * (3.0 ** 0.5 * std)).astype(np.float32).reshape(shape)


def to_bf16(x):
    b = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(b):
    return (b.astype(np.uint32) << 16).view(np.float32)


def narrow(x, dt):
    """(stored array, its exact f32 value)"""
    if dt == "F32":
        return x.astype(np.float32), x.astype(np.float32)
    if dt == "F16":
        h = x.astype(np.float16)
        return h, h.astype(np.float32)
    b = to_bf16(x)
    return b, from_bf16(b).reshape(x.shape)


def rope_rows(w, n_head):
    """Hugging Face row order to GGUF row order for attn_q / attn_k of the llama architecture:
    inside a head of d rows, new row 2j is old row j and new row 2j+1 is old row j + d/2."""
    d = w.shape[0] // n_head
    return w.reshape(n_head, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)


# ---------------------------------------------------------------- files

def write_safetensors(path, tensors, metadata=None):
    """tensors: name -> (dtype tag, array)"""
    head, off = {}, 0
    if metadata:
        head["__metadata__"] = metadata
    for name in sorted(tensors):
        dt, a = tensors[name]
        n = a.size * ST_TYPE[dt][1]
        head[name] = {"dtype": dt, "shape": list(a.shape), "data_offsets": [off, off + n]}
        off += n
    h = json.dumps(head, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(len(h).to_bytes(8, "little") + h)
        for name in sorted(tensors):
            dt, a = tensors[name]
            f.write(np.ascontiguousarray(a, ST_TYPE[dt][0]).tobytes())


def write_json(path, obj):
    with open(path, "w") as f:
        json.dump(obj, f, indent=2, sort_keys=True)
        f.write("\n")


def gguf_add(w, name, x, dt):
    if dt == "F32":
        w.add_tensor(name, np.ascontiguousarray(x, np.float32))
    elif dt == "F16":
        w.add_tensor(name, x.astype(np.float16))
    elif dt == "BF16":
        w.add_tensor(name, to_bf16(x).view(np.uint8).reshape(*x.shape[:-1], -1), raw_dtype=T.BF16)
    else:
        q = T[dt]
        w.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(x, np.float32), q), raw_dtype=q)


def gguf_close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---------------------------------------------------------------- base models

def hf_weights(m, seed):
    D, H, F = DIMS, DIMS["hidden"], FFN[m]
    w = {"model.embed_tokens.weight": rand(seed, m + "embed", (D["vocab"], H), 1.0)}
    if m != "tied":
        w["lm_head.weight"] = rand(seed, m + "head", (D["vocab"], H), H ** -0.5)
    w["model.norm.weight"] = 1 + rand(seed, m + "norm", (H,), 0.1)
    for i in range(D["layers"]):
        p = "model.layers.%d." % i
        shapes = {"self_attn.q_proj": (D["heads"] * D["hd"], H), "self_attn.k_proj": (D["kv"] * D["hd"], H),
                  "self_attn.v_proj": (D["kv"] * D["hd"], H), "self_attn.o_proj": (H, D["heads"] * D["hd"])}
        if m == "moe":
            shapes["block_sparse_moe.gate"] = (EXPERTS, H)
            for e in range(EXPERTS):
                q = "block_sparse_moe.experts.%d." % e
                shapes.update({q + "w1": (F, H), q + "w2": (H, F), q + "w3": (F, H)})
        else:
            shapes.update({"mlp.gate_proj": (F, H), "mlp.up_proj": (F, H), "mlp.down_proj": (H, F)})
        for n, s in shapes.items():
            w[p + n + ".weight"] = rand(seed, m + p + n, s, s[1] ** -0.5)
        for n in ("input_layernorm", "post_attention_layernorm"):
            w[p + n + ".weight"] = 1 + rand(seed, m + p + n, (H,), 0.1)
    return w


def gguf_name(hf):
    """Hugging Face module name (no .weight) -> GGUF name (no .weight); llama and mixtral."""
    if hf == "model.embed_tokens":
        return "token_embd"
    if hf == "lm_head":
        return "output"
    if hf == "model.norm":
        return "output_norm"
    parts = hf.split(".")
    i, leaf = parts[2], parts[-1]
    leaf = {**ATTN, **MLP, "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
            "gate": "ffn_gate_inp", "w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps"}[leaf]
    return "blk.%s.%s" % (i, leaf)


def n_head_of(module):
    return {"q_proj": DIMS["heads"], "k_proj": DIMS["kv"]}.get(module.split(".")[-1])


def gguf_weights(hf):
    """HF state dict -> GGUF tensors (permuted, experts stacked), f32, numpy order."""
    out, experts = {}, {}
    for name, w in hf.items():
        mod = name[:-7]
        g = gguf_name(mod) + ".weight"
        if ".experts." in mod:
            experts.setdefault(g, {})[int(mod.split(".")[-2])] = w
            continue
        n = n_head_of(mod)
        out[g] = rope_rows(w, n) if n else w
    for g, d in experts.items():
        out[g] = np.stack([d[e] for e in range(EXPERTS)])
    return out


def write_base(out, m, seed):
    D = DIMS
    hf = hf_weights(m, seed)
    d = os.path.join(out, "base", m)
    os.makedirs(os.path.join(d, "hf"), exist_ok=True)
    cfg = {"architectures": ["MixtralForCausalLM" if m == "moe" else "LlamaForCausalLM"],
           "model_type": "mixtral" if m == "moe" else "llama", "hidden_size": D["hidden"],
           "intermediate_size": FFN[m], "num_hidden_layers": D["layers"], "num_attention_heads": D["heads"],
           "num_key_value_heads": D["kv"], "head_dim": D["hd"], "vocab_size": D["vocab"],
           "max_position_embeddings": 512, "rope_theta": D["theta"], "rms_norm_eps": D["eps"],
           "hidden_act": "silu", "tie_word_embeddings": m == "tied", "torch_dtype": "float32",
           "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2}
    if m == "moe":
        cfg.update(num_local_experts=EXPERTS, num_experts_per_tok=USED, sliding_window=None)
    write_json(os.path.join(d, "hf", "config.json"), cfg)
    write_safetensors(os.path.join(d, "hf", "model.safetensors"),
                      {k: ("F32", v) for k, v in hf.items()}, {"format": "pt"})
    gw = gguf_weights(hf)
    for dt in ("F32", "F16", "BF16", "Q8_0"):
        w = gguf.GGUFWriter(os.path.join(d, "%s-%s.gguf" % (m, dt.lower())), "llama")
        w.add_type("model")
        w.add_name("tiny " + m)
        w.add_block_count(D["layers"])
        w.add_context_length(512)
        w.add_embedding_length(D["hidden"])
        w.add_feed_forward_length(FFN[m])
        w.add_head_count(D["heads"])
        w.add_head_count_kv(D["kv"])
        w.add_rope_freq_base(D["theta"])
        w.add_layer_norm_rms_eps(D["eps"])
        w.add_key_length(D["hd"])
        w.add_value_length(D["hd"])
        w.add_rope_dimension_count(D["hd"])
        w.add_vocab_size(D["vocab"])
        if m == "moe":
            w.add_expert_count(EXPERTS)
            w.add_expert_used_count(USED)
        w.add_file_type({"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7}[dt])
        w.add_tokenizer_model("none")
        for name, x in gw.items():
            keep = x.ndim < 2 or "ffn_gate_inp" in name
            gguf_add(w, name, x, "F32" if keep else dt)
        gguf_close(w)
    return hf, gw


# ---------------------------------------------------------------- adapters

def case(name, base="llama", mods=("q_proj", "v_proj"), r=4, alpha=8, da="F32", db=None, rslora=False,
         rank_pattern=None, alpha_pattern=None, layers=None, infix="", verdict="merge", why="", cfg=None,
         special=None, forms=("peft", "gguf", "seed", "mlx"), prefix="base_model.model."):
    return dict(name=name, base=base, mods=list(mods), r=r, alpha=alpha, da=da, db=db or da, rslora=rslora,
                rank_pattern=rank_pattern or {}, alpha_pattern=alpha_pattern or {}, layers=layers,
                infix=infix, verdict=verdict, why=why, cfg=cfg or {}, special=special, forms=list(forms),
                prefix=prefix)


PG = ("peft", "gguf")
P = ("peft",)
CASES = [
    case("qv-r4-f32"),
    case("all-r8-f16", mods=LINEAR, r=8, alpha=16, da="F16"),
    case("all-r8-bf16", mods=LINEAR, r=8, alpha=16, da="BF16"),
    case("mixed-dtypes", mods=("q_proj", "down_proj"), r=8, alpha=4, da="F32", db="BF16"),
    case("rank1-odd-alpha", mods=("k_proj", "o_proj"), r=1, alpha=3),
    case("rank-not-power-of-2", mods=("q_proj", "k_proj"), r=6, alpha=10),
    case("rslora-r16", mods=("q_proj", "up_proj"), r=16, alpha=16, rslora=True,
         why="scale is alpha/sqrt(r) = 4; a GGUF adapter must hold alpha*sqrt(r)"),
    case("layer-1-only", mods=LINEAR, r=4, alpha=8, layers=[1], cfg={"layers_to_transform": [1]}),
    case("rank-and-alpha-pattern", mods=LINEAR, r=8, alpha=8, forms=P,
         rank_pattern={"down_proj": 2, "model.layers.0.self_attn.q_proj": 16},
         alpha_pattern={r"^model\.layers\.1\.self_attn\.(k|v)_proj": 32, "down_proj": 6},
         why="rank differs per module (read it from A); alpha from the first pattern that matches"),
    case("adapter-name-infix", mods=("q_proj", "v_proj"), infix=".default", forms=P,
         why="keys saved straight from a model: .lora_A.default.weight"),
    case("no-prefix", prefix="", forms=P, verdict="full", why="keys without base_model.model.: PEFT itself skips them with a warning"),
    case("embed-and-head", mods=("embed_tokens", "lm_head", "q_proj"), r=4, alpha=8, forms=PG,
         why="lora_embedding_A [r, vocab] and _B [hidden, r]; in GGUF token_embd.weight.lora_a is transposed"),
    case("saved-base-layer", mods=("embed_tokens", "q_proj"), forms=P, special="base_layer",
         why="an unchanged copy of the embedding under .base_layer.weight: ignore it"),
    case("moe-per-expert", base="moe", mods=("q_proj", "w1", "w2", "w3"), r=4, alpha=8, forms=PG,
         why="one pair per expert (older PEFT); stacked for GGUF: a [E, r, in], b [E, out, r]"),
    case("moe-target-parameters", base="moe", mods=("gate_up_proj", "down_proj"), r=4, alpha=8, forms=PG,
         special="moe3d", cfg={"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
                               "target_modules": []},
         why="experts.base_layer.lora_* is gate_up_proj, experts.lora_* is down_proj; A expert-major, B expert-minor"),
    # needs more than W + sBA
    case("tied-embed", base="tied", mods=("embed_tokens", "q_proj"), r=4, alpha=8, forms=P, verdict="full",
         why="the base ties the output to token_embd: merging into the shared tensor changes the output too; "
             "exact = a separate output.weight holding the old rows"),
    case("tied-head", base="tied", mods=("lm_head", "q_proj"), forms=P, verdict="full",
         why="the base has no output.weight: exact = write one (old token_embd + delta)"),
    case("dora", mods=("q_proj", "down_proj"), r=4, alpha=8, forms=P, special="dora", verdict="full",
         cfg={"use_dora": True}, why="each row rescaled: m / ||W + sBA||, norm over the inputs"),
    case("modules-to-save-head", forms=P, special="mts", verdict="full", cfg={"modules_to_save": ["lm_head"]},
         why="lm_head.weight is a whole replacement tensor"),
    case("zero-b", forms=("peft", "gguf", "seed"), special="zero_b", verdict="full",
         why="an untrained adapter: merging changes no byte; say that nothing changed"),
    # refused
    case("loha", forms=P, verdict="refuse", special="loha", cfg={"peft_type": "LOHA"}, why="not LoRA"),
    case("alora", forms=P, verdict="refuse", cfg={"alora_invocation_tokens": [5, 6, 7]},
         why="applied only after the invocation tokens: cannot be merged"),
    case("missing-b", forms=PG, verdict="refuse", special="missing_b", why="layers.1 q_proj has A but no B"),
    case("rank-mismatch", forms=PG, verdict="refuse", special="rank_mismatch", why="A has 4 rows, B has 3 columns"),
    case("shape-mismatch", forms=PG, verdict="refuse", special="shape_mismatch", why="A has one input column too many"),
    case("unknown-module", forms=P, verdict="refuse", special="unknown", why="a pair for model.layers.0.mlp.extra_proj"),
    case("layer-out-of-range", forms=P, verdict="refuse", special="layer9", why="a pair for model.layers.9"),
    case("nan-in-a", forms=PG, verdict="refuse", special="nan", why="one NaN in A"),
    case("wrong-rank-in-config", forms=P, verdict="refuse", cfg={"r": 16}, why="config says r 16, A has 4 rows"),
    case("no-alpha", forms=P, verdict="refuse", cfg={"lora_alpha": None}, why="no lora_alpha and none on the command line"),
    case("kohya", forms=P, verdict="refuse", special="kohya", why="lora_unet_... keys: an image-model LoRA"),
    case("wrong-arch", forms=("gguf",), verdict="refuse", special="wrong_arch", why="general.architecture qwen2 on a llama base"),
    case("not-an-adapter", forms=("gguf",), verdict="refuse", special="not_adapter", why="general.type model"),
]


def pattern_value(patterns, module, default):
    """PEFT: the first key k with re.match(r'(.*\\.)?(k)$', module)."""
    import re
    for k, v in patterns.items():
        if re.match(r"(.*\.)?(%s)$" % k, module):
            return v
    return default


def modules_of(c, hf):
    """HF module names that the case adapts, in file order."""
    out = []
    for name in hf:
        if not name.endswith(".weight"):
            continue
        mod = name[:-7]
        if mod.split(".")[-1] not in c["mods"] or "norm" in mod:
            continue
        if c["layers"] is not None and mod.startswith("model.layers.") and int(mod.split(".")[2]) not in c["layers"]:
            continue
        out.append(mod)
    if "lm_head" in c["mods"] and "lm_head.weight" not in hf:    # tied: PEFT still has the module
        out.append("lm_head")
    return out


def make_case(out, c, seed, hf, gw):
    d = os.path.join(out, c["name"])
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    sp = c["special"]
    pairs = {}      # HF module -> (A stored, A f32, B stored, B f32, rank, scale); A [r, in], B [out, r]

    def pair(mod, shape, key, r, alpha):
        a = rand(seed, c["name"] + key + "A", (r, shape[1]), shape[1] ** -0.5)
        b = rand(seed, c["name"] + key + "B", (shape[0], r), 0.3 * r ** -0.5)
        if sp == "zero_b":
            b[:] = 0
        if sp == "nan" and not pairs:
            a[1, 3] = np.nan
        sa, fa = narrow(a, c["da"])
        sb, fb = narrow(b, c["db"])
        s = alpha / r ** 0.5 if c["rslora"] else alpha / r
        pairs[mod] = (sa, fa, sb, fb, r, s)

    if sp == "moe3d":
        for i in range(DIMS["layers"]):
            for leaf, o, n in (("gate_up_proj", 2 * FFN["moe"], DIMS["hidden"]), ("down_proj", DIMS["hidden"], FFN["moe"])):
                for e in range(EXPERTS):
                    m = "model.layers.%d.mlp.experts.%d.%s" % (i, e, leaf)
                    pair(m, (o, n), m, c["r"], c["alpha"])
    else:
        for mod in modules_of(c, hf):
            shape = hf.get(mod + ".weight", hf["model.embed_tokens.weight"]).shape
            if mod == "model.embed_tokens":
                shape = shape[::-1]          # A [r, vocab], B [hidden, r]
            pair(mod, shape, mod, pattern_value(c["rank_pattern"], mod, c["r"]),
                 pattern_value(c["alpha_pattern"], mod, c["alpha"]))

    expect, info = merged(c, pairs, hf, gw, seed)
    if "peft" in c["forms"]:
        write_peft(d, c, pairs, hf, seed)
    if "gguf" in c["forms"]:
        write_gguf(d, c, pairs)
    if "seed" in c["forms"]:
        write_seed(d, c, pairs)
    if "mlx" in c["forms"]:
        write_mlx(d, c, pairs)
    write_json(os.path.join(d, "expect.json"),
               {"base": c["base"], "verdict": c["verdict"], "why": c["why"], "forms": c["forms"],
                "alpha": c["alpha"], "rslora": c["rslora"], "tensors": info if c["verdict"] != "refuse" else {}})
    if c["verdict"] != "refuse":
        write_safetensors(os.path.join(d, "expect.safetensors"), {k: ("F32", v) for k, v in expect.items()})


def delta(p):
    return p[5] * (p[3].astype(np.float64) @ p[1].astype(np.float64))


def merged(c, pairs, hf, gw, seed):
    exp, info = {}, {}

    def start(g):
        if g not in exp:
            exp[g] = gw[g].astype(np.float64).copy()
        return exp[g]
    for mod, p in pairs.items():
        dl = delta(p)
        if c["special"] == "moe3d":
            parts = mod.split(".")
            i, e, leaf = parts[2], int(parts[5]), parts[6]
            if leaf == "down_proj":
                start("blk.%s.ffn_down_exps.weight" % i)[e] += dl
                names = ["ffn_down_exps"]
            else:
                f = FFN["moe"]
                start("blk.%s.ffn_gate_exps.weight" % i)[e] += dl[:f]
                start("blk.%s.ffn_up_exps.weight" % i)[e] += dl[f:]
                names = ["ffn_gate_exps", "ffn_up_exps"]
            for n in names:
                info["blk.%s.%s.weight" % (i, n)] = {"rank": p[4], "scale": p[5]}
            continue
        g = gguf_name(mod) + ".weight"
        info[g] = {"rank": p[4], "scale": p[5]}
        if mod == "model.embed_tokens":
            if c["base"] == "tied":
                exp["output.weight"] = gw[g].astype(np.float64).copy()
            start(g)[...] += dl.T
        elif mod == "lm_head" and c["base"] == "tied":
            exp["output.weight"] = gw["token_embd.weight"] + dl
            info["output.weight"] = info.pop(g)
        elif ".experts." in mod:
            start(g)[int(mod.split(".")[-2])] += dl
        else:
            n = n_head_of(mod)
            if c["special"] == "dora":
                w = hf[mod + ".weight"].astype(np.float64) + dl
                w *= (magnitude(c, mod, hf, seed) / np.linalg.norm(w, axis=1))[:, None]
                exp[g] = rope_rows(w, n) if n else w
            else:
                start(g)[...] += rope_rows(dl, n) if n else dl
    if c["special"] == "mts":
        exp["output.weight"] = saved_head(c, seed).astype(np.float64)
        info["output.weight"] = {"replaced": True}
    return {k: v.astype(np.float32) for k, v in exp.items()}, info


def magnitude(c, mod, hf, seed):
    w = hf[mod + ".weight"]
    n = np.linalg.norm(w.astype(np.float64), axis=1)
    return (n * (1 + rand(seed, c["name"] + mod + "m", n.shape, 0.1))).astype(np.float32)


def saved_head(c, seed):
    return rand(seed, c["name"] + "saved", (DIMS["vocab"], DIMS["hidden"]), DIMS["hidden"] ** -0.5)


def write_peft(d, c, pairs, hf, seed):
    d = os.path.join(d, "peft")
    os.makedirs(d)
    mods = sorted({m.split(".")[-1] for m in pairs})
    cfg = {"alpha_pattern": c["alpha_pattern"], "auto_mapping": None, "base_model_name_or_path": "tiny-" + c["base"],
           "bias": "none", "fan_in_fan_out": False, "inference_mode": True, "init_lora_weights": True,
           "layers_pattern": None, "layers_to_transform": None, "lora_alpha": c["alpha"], "lora_bias": False,
           "lora_dropout": 0.0, "modules_to_save": None, "peft_type": "LORA", "peft_version": "0.21.2",
           "r": c["r"], "rank_pattern": c["rank_pattern"], "target_modules": mods, "task_type": "CAUSAL_LM",
           "use_dora": False, "use_rslora": c["rslora"]}
    cfg.update(c["cfg"])
    if cfg["lora_alpha"] is None:
        del cfg["lora_alpha"]
    write_json(os.path.join(d, "adapter_config.json"), cfg)
    t, pre, inf = {}, c["prefix"], c["infix"]
    if c["special"] == "moe3d":
        for i in range(DIMS["layers"]):
            for leaf, inner in (("gate_up_proj", ".base_layer"), ("down_proj", "")):
                ps = [pairs["model.layers.%d.mlp.experts.%d.%s" % (i, e, leaf)] for e in range(EXPERTS)]
                a = np.concatenate([p[0] for p in ps])                       # [E*r, in], expert slowest
                b = np.stack([p[2] for p in ps], axis=-1)                    # [out, r, E], expert fastest
                k = "%smodel.layers.%d.mlp.experts%s" % (pre, i, inner)
                t[k + ".lora_A.weight"] = (c["da"], a)
                t[k + ".lora_B.weight"] = (c["db"], b.reshape(b.shape[0], -1))
    else:
        for mod, p in pairs.items():
            if mod == "model.embed_tokens":
                t[pre + mod + ".lora_embedding_A" + inf] = (c["da"], p[0])
                t[pre + mod + ".lora_embedding_B" + inf] = (c["db"], p[2])
            else:
                t[pre + mod + ".lora_A" + inf + ".weight"] = (c["da"], p[0])
                t[pre + mod + ".lora_B" + inf + ".weight"] = (c["db"], p[2])
            if c["special"] == "dora":
                t[pre + mod + ".lora_magnitude_vector"] = ("F32", magnitude(c, mod, hf, seed))
    sp = c["special"]
    last = "%smodel.layers.1.self_attn.q_proj" % pre
    if sp == "mts":
        t[pre + "lm_head.weight"] = ("F32", saved_head(c, seed))
    elif sp == "base_layer":
        t[pre + "model.embed_tokens.base_layer.weight"] = ("F32", hf["model.embed_tokens.weight"])
    elif sp == "missing_b":
        del t[last + ".lora_B.weight"]
    elif sp == "rank_mismatch":
        t[last + ".lora_B.weight"] = ("F32", pairs["model.layers.1.self_attn.q_proj"][2][:, :3])
    elif sp == "shape_mismatch":
        a = pairs["model.layers.1.self_attn.q_proj"][0]
        t[last + ".lora_A.weight"] = ("F32", np.concatenate([a, a[:, :1]], axis=1))
    elif sp in ("unknown", "layer9"):
        k = pre + ("model.layers.0.mlp.extra_proj" if sp == "unknown" else "model.layers.9.self_attn.q_proj")
        p = pairs["model.layers.0.self_attn.q_proj"]
        t[k + ".lora_A.weight"], t[k + ".lora_B.weight"] = ("F32", p[0]), ("F32", p[2])
    elif sp == "loha":
        t = {k.replace("lora_A.weight", "hada_w1_a").replace("lora_B.weight", "hada_w1_b"): v for k, v in t.items()}
    elif sp == "kohya":
        os.remove(os.path.join(d, "adapter_config.json"))
        p = pairs["model.layers.0.self_attn.q_proj"]
        k = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"
        t = {k + ".lora_down.weight": ("F32", p[0]), k + ".lora_up.weight": ("F32", p[2]),
             k + ".alpha": ("F32", np.array(8.0, np.float32))}
        write_safetensors(os.path.join(d, "adapter_model.safetensors"), t,
                          {"ss_network_dim": "4", "ss_network_alpha": "8", "ss_network_module": "networks.lora"})
        return
    write_safetensors(os.path.join(d, "adapter_model.safetensors"), t, {"format": "pt"})


def gguf_pairs(c, pairs):
    """GGUF base name -> (A, B) f32 in GGUF layout, numpy order."""
    out, stack = {}, {}
    for mod, p in pairs.items():
        if c["special"] == "moe3d":
            parts = mod.split(".")
            i, e, leaf = parts[2], int(parts[5]), parts[6]
            if leaf == "down_proj":
                stack.setdefault("blk.%s.ffn_down_exps.weight" % i, {})[e] = (p[1], p[3])
            else:
                f = FFN["moe"]
                stack.setdefault("blk.%s.ffn_gate_exps.weight" % i, {})[e] = (p[1], p[3][:f])
                stack.setdefault("blk.%s.ffn_up_exps.weight" % i, {})[e] = (p[1], p[3][f:])
            continue
        g = gguf_name(mod) + ".weight"
        if ".experts." in mod:
            stack.setdefault(g, {})[int(mod.split(".")[-2])] = (p[1], p[3])
        elif mod == "model.embed_tokens":
            out[g] = (np.ascontiguousarray(p[1].T), p[3])
        else:
            n = n_head_of(mod)
            out[g] = (p[1], rope_rows(p[3], n) if n else p[3])
    for g, s in stack.items():
        out[g] = (np.stack([s[e][0] for e in range(EXPERTS)]), np.stack([s[e][1] for e in range(EXPERTS)]))
    return out


def write_gguf(d, c, pairs):
    d = os.path.join(d, "gguf")
    os.makedirs(d)
    sp = c["special"]
    w = gguf.GGUFWriter(os.path.join(d, "adapter.gguf"), "qwen2" if sp == "wrong_arch" else "llama")
    w.add_type("model" if sp == "not_adapter" else "adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", c["alpha"] * c["r"] ** 0.5 if c["rslora"] else c["alpha"])
    w.add_name(c["name"])
    gp = gguf_pairs(c, pairs)
    last = "blk.1.attn_q.weight"
    if sp == "rank_mismatch":
        gp[last] = (gp[last][0], gp[last][1][:, :3])
    elif sp == "shape_mismatch":
        a = gp[last][0]
        gp[last] = (np.concatenate([a, a[:, :1]], axis=1), gp[last][1])
    for g, (a, b) in gp.items():
        gguf_add(w, g + ".lora_a", a, c["da"])
        if not (sp == "missing_b" and g == last):
            gguf_add(w, g + ".lora_b", b, c["db"])
    gguf_close(w)


def write_seed(d, c, pairs):
    """layers.<i>.<t>.lora_a [r, in] / .lora_b [out, r], F32, rows in the order of the GGUF base."""
    d = os.path.join(d, "seed")
    os.makedirs(d)
    t = {}
    for mod, p in pairs.items():
        parts = mod.split(".")
        k = "layers.%s.%s" % (parts[2], SEED_NAME[parts[-1]])
        n = n_head_of(mod)
        t[k + ".lora_a"] = ("F32", p[1])
        t[k + ".lora_b"] = ("F32", rope_rows(p[3], n) if n else p[3])
    write_safetensors(os.path.join(d, "adapters.safetensors"), t)
    eff = c["alpha"] * c["r"] ** 0.5 if c["rslora"] else c["alpha"]
    write_json(os.path.join(d, "trainer_state.json"), {"lora_rank": c["r"], "lora_alpha": float(eff)})


def write_mlx(d, c, pairs):
    """<module>.lora_a [in, r] / .lora_b [r, out]; one scale for all, no alpha; Hugging Face row order."""
    d = os.path.join(d, "mlx")
    os.makedirs(d)
    t = {}
    for mod, p in pairs.items():
        t[mod + ".lora_a"] = (c["da"], np.ascontiguousarray(p[0].T))
        t[mod + ".lora_b"] = (c["db"], np.ascontiguousarray(p[2].T))
    write_safetensors(os.path.join(d, "adapters.safetensors"), t, {"format": "mlx"})
    keys = sorted({".".join(m.split(".")[3:]) for m in pairs})
    scale = c["alpha"] / c["r"] ** 0.5 if c["rslora"] else c["alpha"] / c["r"]
    write_json(os.path.join(d, "adapter_config.json"),
               {"fine_tune_type": "lora", "model": "tiny-" + c["base"], "num_layers": len(c["layers"] or range(DIMS["layers"])),
                "lora_parameters": {"keys": keys, "rank": c["r"], "scale": scale, "dropout": 0.0}})


def for_base(out, base, seed, r, alpha, dt, std):
    """An adapter for a real GGUF base. The rows of q and k are given in the order of the base."""
    rd = gguf.GGUFReader(base)
    arch = rd.fields["general.architecture"].contents()
    inv = {v: ("self_attn." if k in ATTN else "mlp.") + k for k, v in {**ATTN, **MLP}.items()}
    heads = {}
    if arch == "llama":
        heads["attn_q"] = int(rd.fields["llama.attention.head_count"].contents())
        heads["attn_k"] = int(rd.fields["llama.attention.head_count_kv"].contents())
    for f in ("peft", "gguf", "seed"):
        os.makedirs(os.path.join(out, f), exist_ok=True)
    w = gguf.GGUFWriter(os.path.join(out, "gguf", "adapter.gguf"), arch)
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", alpha)
    peft, sd, n = {}, {}, 0
    for t in rd.tensors:
        parts = t.name.split(".")
        if parts[0] != "blk" or parts[-1] != "weight" or len(t.shape) != 2 or parts[2] not in inv:
            continue
        i, o = int(t.shape[0]), int(t.shape[1])
        sa, fa = narrow(rand(seed, t.name + "A", (r, i), i ** -0.5), dt)
        _, fb = narrow(rand(seed, t.name + "B", (o, r), std * r ** -0.5), dt)
        gguf_add(w, t.name + ".lora_a", fa, dt)
        gguf_add(w, t.name + ".lora_b", fb, dt)
        h = heads.get(parts[2])
        hb = fb.reshape(h, o // h // 2, 2, r).swapaxes(1, 2).reshape(o, r) if h else fb     # GGUF -> HF rows
        k = "base_model.model.model.layers.%s.%s" % (parts[1], inv[parts[2]])
        peft[k + ".lora_A.weight"], peft[k + ".lora_B.weight"] = (dt, sa), (dt, narrow(hb, dt)[0])
        k = "layers.%s.%s" % (parts[1], SEED_NAME[inv[parts[2]].split(".")[1]])
        sd[k + ".lora_a"], sd[k + ".lora_b"] = ("F32", fa), ("F32", fb)
        n += 1
    gguf_close(w)
    if arch in ("llama", "qwen2", "qwen3"):
        write_safetensors(os.path.join(out, "peft", "adapter_model.safetensors"), peft, {"format": "pt"})
        write_json(os.path.join(out, "peft", "adapter_config.json"),
                   {"peft_type": "LORA", "r": r, "lora_alpha": alpha, "use_rslora": False, "use_dora": False,
                    "bias": "none", "fan_in_fan_out": False, "target_modules": LINEAR, "modules_to_save": None,
                    "rank_pattern": {}, "alpha_pattern": {}, "base_model_name_or_path": "base", "task_type": "CAUSAL_LM"})
    write_safetensors(os.path.join(out, "seed", "adapters.safetensors"), sd)
    write_json(os.path.join(out, "seed", "trainer_state.json"), {"lora_rank": r, "lora_alpha": float(alpha)})
    print("%d pairs for %s" % (n, arch))


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("out", nargs="?")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--for", dest="base")
    ap.add_argument("--r", type=int, default=8)
    ap.add_argument("--alpha", type=float, default=16)
    ap.add_argument("--dtype", default="F16", choices=["F32", "F16", "BF16"])
    ap.add_argument("--std", type=float, default=0.3)
    o = ap.parse_args()
    if o.base and o.out:
        return for_base(o.out, o.base, o.seed, o.r, o.alpha, o.dtype, o.std)
    if o.list or not o.out:
        for c in CASES:
            print("%-24s %-6s %-7s %-20s %s" % (c["name"], c["base"], c["verdict"], ",".join(c["forms"]), c["why"]))
        return
    os.makedirs(o.out, exist_ok=True)
    pick = [c for c in CASES if not o.only or c["name"] in o.only.split(",")]
    bases = {m: write_base(o.out, m, o.seed) for m in sorted({c["base"] for c in pick})}
    for c in pick:
        make_case(o.out, c, o.seed, *bases[c["base"]])
    print("%d cases, bases: %s" % (len(pick), ", ".join(bases)))


if __name__ == "__main__":
    main()
