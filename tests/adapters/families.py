#!/usr/bin/env python3
"""Adapters of other model families than make_adapters.py has, odd keys and layouts, and hostile files.

usage: families.py --quench FILE [--mutations N]

Every case is a tiny base, an adapter, and what numpy makes of both by the tables of docs/formats/adapters.md:
orders of rows, fused and split tensors, experts in every layout, norms plus one, biases, replacements. Then
refusals by their reasons, and adapters with random bytes changed: never a crash, an error of one line.
Exit status 1 if anything differs, 77 without numpy and gguf.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print("skipped: %s (scripts/setup.sh test)" % missing)
    sys.exit(77)

from make_adapters import rand, rope_rows, write_safetensors

bad = []
n_checked = 0
P = "base_model.model."
L = P + "model.layers.0."


def check(ok, what):
    global n_checked
    n_checked += 1
    if not ok:
        bad.append(what)
        print("FAIL", what)


def values(name, *shape):
    return rand(7, name + str(shape), shape, 0.5)


def pair(module, out, n_in, r=3, infix=""):
    """Keys of a PEFT pair, and its delta without the scale."""
    a, b = values(module + "A", r, n_in), values(module + "B", out, r)
    keys = {module + ".lora_A%s.weight" % infix: a, module + ".lora_B%s.weight" % infix: b}
    return keys, b.astype(np.float64) @ a.astype(np.float64)


class Case:
    """`reason`: of a refusal; `warning`: in what is said, "" where nothing may be said; `title`: general.name."""

    def __init__(self, name, arch, base, heads=(4, 2), experts=0, config=None, reason=None, options=(), warning=None,
                 title=None):
        self.name, self.arch, self.base, self.heads, self.experts = name, arch, base, heads, experts
        self.warning, self.title = warning, title
        self.keys, self.expect, self.reason, self.options = {}, {}, reason, list(options)
        self.config = {"peft_type": "LORA", "lora_alpha": 6} if config is None else config

    def pair(self, module, out, n_in, r=3, infix=""):
        keys, delta = pair(module, out, n_in, r, infix)
        self.keys.update(keys)
        return delta * 6 / r

    def add(self, target, delta, rows=slice(None)):
        self.expect.setdefault(target, self.base[target].astype(np.float64).copy())[rows] += delta


def cases():
    H, KV, d, n_in = 4, 2, 4, 8
    qkv = (H + 2 * KV) * d

    c = Case("gptneox", "gptneox", {"blk.0.attn_qkv.weight": values("w", 3 * H * d, n_in)})
    delta = c.pair(P + "gpt_neox.layers.0.attention.query_key_value", 3 * H * d, n_in)
    c.add("blk.0.attn_qkv.weight", delta.reshape(H, 3, d, n_in).swapaxes(0, 1).reshape(-1, n_in))
    yield c

    c = Case("falcon", "falcon", {"blk.0.attn_qkv.weight": values("w", qkv, n_in)})
    delta = c.pair(P + "transformer.h.0.self_attention.query_key_value", qkv, n_in).reshape(KV, H // KV + 2, d, n_in)
    c.add("blk.0.attn_qkv.weight", np.concatenate([delta[:, :-2].reshape(-1, n_in), delta[:, -2].reshape(-1, n_in),
                                                  delta[:, -1].reshape(-1, n_in)]))
    yield c

    c = Case("phi3 with split q, k, v", "phi3", {"blk.0.attn_qkv.weight": values("w", qkv, n_in)})
    for name, first, n in (("q_proj", 0, H * d), ("k_proj", H * d, KV * d), ("v_proj", (H + KV) * d, KV * d)):
        c.add("blk.0.attn_qkv.weight", c.pair(L + "self_attn." + name, n, n_in), slice(first, first + n))
    yield c

    c = Case("phi3 fused, and gate_up", "phi3", {"blk.0.attn_qkv.weight": values("w", qkv, n_in),
                                                 "blk.0.ffn_up.weight": values("u", 12, n_in)})
    c.add("blk.0.attn_qkv.weight", c.pair(L + "self_attn.qkv_proj", qkv, n_in))
    c.add("blk.0.ffn_up.weight", c.pair(L + "mlp.gate_up_proj", 12, n_in))
    yield c

    split = {"blk.0.attn_%s.weight" % x: values(x, n * d, n_in) for x, n in (("q", H), ("k", KV), ("v", KV))}
    c = Case("fused adapter on a split base", "phi3", split)
    delta = c.pair(L + "self_attn.qkv_proj", qkv, n_in)
    for x, first, n in (("q", 0, H * d), ("k", H * d, KV * d), ("v", (H + KV) * d, KV * d)):
        c.add("blk.0.attn_%s.weight" % x, delta[first:first + n])
    yield c

    c = Case("bert on a fused base", "bert", {"blk.0.attn_qkv.weight": values("w", 3 * H * d, n_in)}, heads=(H, H))
    c.add("blk.0.attn_qkv.weight", c.pair("bert.encoder.layer.0.attention.self.key", H * d, n_in), slice(H * d, 2 * H * d))
    yield c

    c = Case("qwen2 with biases", "qwen2", {"blk.0.attn_q.weight": values("q", H * d, n_in), "blk.0.attn_q.bias": values("qb", H * d),
                                            "blk.0.attn_k.weight": values("k", KV * d, n_in), "blk.0.attn_k.bias": values("kb", KV * d)})
    c.add("blk.0.attn_q.weight", c.pair(L + "self_attn.q_proj", H * d, n_in))
    c.add("blk.0.attn_k.weight", c.pair(L + "self_attn.k_proj", KV * d, n_in))
    c.keys[L + "self_attn.q_proj.base_layer.bias"] = values("new", H * d)
    c.expect["blk.0.attn_q.bias"] = values("new", H * d).astype(np.float64)
    c.keys[L + "self_attn.k_proj.lora_B.bias"] = values("plus", KV * d)
    c.add("blk.0.attn_k.bias", values("plus", KV * d).astype(np.float64) * 2)
    yield c

    c = Case("llama with permuted rows everywhere", "llama", {
        "blk.0.attn_q.weight": values("q", H * d, n_in), "blk.0.attn_q.bias": values("qb", H * d),
        "blk.0.attn_k.weight": values("k", KV * d, n_in)})
    c.add("blk.0.attn_k.weight", rope_rows(c.pair(P + "_orig_mod.model.language_model.layers.0.self_attn.k_proj", KV * d, n_in), KV))
    c.keys[L + "self_attn.q_proj.weight"] = values("nq", H * d, n_in)
    c.keys[L + "self_attn.q_proj.bias"] = values("nb", H * d)
    c.expect["blk.0.attn_q.weight"] = rope_rows(values("nq", H * d, n_in), H).astype(np.float64)
    c.expect["blk.0.attn_q.bias"] = rope_rows(values("nb", H * d).reshape(-1, 1), H).reshape(-1).astype(np.float64)
    yield c

    c = Case("gemma2 norms", "gemma2", {"blk.0.attn_norm.weight": values("n", n_in), "blk.0.post_ffw_norm.weight": values("m", n_in)})
    c.keys[L + "input_layernorm.weight"], c.keys[L + "post_feedforward_layernorm.weight"] = values("n1", n_in), values("m1", n_in)
    c.expect = {"blk.0.attn_norm.weight": values("n1", n_in) + 1.0, "blk.0.post_ffw_norm.weight": values("m1", n_in) + 1.0}
    yield c

    c = Case("gemma3, a vocabulary that was cut", "gemma3", {"token_embd.weight": values("e", 10, n_in), "output.weight": values("o", 10, n_in)})
    a, b = values("ea", 2, 13), values("eb", n_in, 2)
    c.keys = {P + "model.embed_tokens.lora_embedding_A": a, P + "model.embed_tokens.lora_embedding_B": b}
    c.add("token_embd.weight", (b.astype(np.float64) @ a.astype(np.float64)).T[:10] * 3)
    yield c

    c = Case("gpt2", "gpt2", {"blk.0.attn_qkv.weight": values("w", 24, n_in), "blk.0.ffn_up.weight": values("u", 12, n_in)})
    c.add("blk.0.attn_qkv.weight", c.pair("h.0.attn.c_attn", 24, n_in))
    c.keys["transformer.h.0.mlp.c_fc.weight"] = values("nu", n_in, 12)
    c.expect["blk.0.ffn_up.weight"] = values("nu", n_in, 12).T.astype(np.float64)
    yield c

    E, F = 3, 6
    stack = {"blk.0.ffn_gate_exps.weight": values("g", E, F, n_in), "blk.0.ffn_up_exps.weight": values("u", E, F, n_in),
             "blk.0.ffn_down_exps.weight": values("dn", E, n_in, F)}

    def parameters(c, key, out, inner, r=2, old=False):
        """A pair for a stack: A expert slowest, B expert fastest; deltas [E, out, inner]."""
        d1, d2 = (out, inner) if old else (inner, out)
        a, b = values(key + "A", E * r, d1), values(key + "B", d2, r * E)
        c.keys[key + ".lora_A.weight"], c.keys[key + ".lora_B.weight"] = a, b
        deltas = [b[:, e::E].astype(np.float64) @ a[e * r:(e + 1) * r].astype(np.float64) for e in range(E)]
        return [3 * (x.T if old else x) for x in deltas]

    for old in (False, True):
        c = Case("experts, both parameters, %s layout" % ("old" if old else "new"), "qwen3moe", stack, experts=E)
        both = parameters(c, L + "mlp.experts.base_layer", 2 * F, n_in, old=old)
        down = parameters(c, L + "mlp.experts", n_in, F, old=old)
        for e in range(E):
            c.add("blk.0.ffn_gate_exps.weight", both[e][:F], e)
            c.add("blk.0.ffn_up_exps.weight", both[e][F:], e)
            c.add("blk.0.ffn_down_exps.weight", down[e], e)
        yield c

    c = Case("experts, one parameter, patterns by its path", "qwen3moe", stack, experts=E,
             config={"peft_type": "LORA", "lora_alpha": 6, "r": 8, "target_parameters": ["mlp.experts.down_proj"],
                     "rank_pattern": {r"experts\.down_proj": 2}})
    for e, delta in enumerate(parameters(c, L + "mlp.experts", n_in, F)):
        c.add("blk.0.ffn_down_exps.weight", delta, e)
    yield c

    c = Case("experts fused in the base", "qwen2moe", {"blk.0.ffn_gate_up_exps.weight": values("gu", E, 2 * F, n_in)}, experts=E)
    c.add("blk.0.ffn_gate_up_exps.weight", c.pair(L + "mlp.experts.2.gate_proj", F, n_in), (2, slice(0, F)))
    c.add("blk.0.ffn_gate_up_exps.weight", c.pair(L + "mlp.experts.1.up_proj", F, n_in), (1, slice(F, 2 * F)))
    yield c

    c = Case("mlx-lm: experts, DoRA, embedding", "qwen3moe", dict(stack, **{
        "blk.0.attn_v.weight": values("v", KV * d, n_in), "token_embd.weight": values("e", 10, n_in), "output.weight": values("o", 10, n_in)}),
        experts=E, config={"fine_tune_type": "dora", "lora_parameters": {"rank": 2, "scale": 1.5}})
    a, b = values("a", E, 2, n_in), values("b", E, F, 2)
    m = "model.layers.0."
    c.keys = {m + "mlp.switch_mlp.up_proj.lora_a": a, m + "mlp.switch_mlp.up_proj.lora_b": b}
    c.add("blk.0.ffn_up_exps.weight", np.matmul(b.astype(np.float64), a.astype(np.float64)) * 1.5)
    a, b, mag = values("va", n_in, 2), values("vb", 2, KV * d), 1 + values("vm", KV * d) ** 2
    c.keys.update({m + "self_attn.v_proj.lora_a": a, m + "self_attn.v_proj.lora_b": b, m + "self_attn.v_proj.m": mag.astype(np.float32)})
    v = c.base["blk.0.attn_v.weight"] + 1.5 * (a.astype(np.float64) @ b.astype(np.float64)).T
    c.expect["blk.0.attn_v.weight"] = v * (mag / np.linalg.norm(v, axis=1))[:, None]
    a, b = values("ea", 10, 2), values("eb", 2, n_in)
    c.keys.update({"model.embed_tokens.lora_a": a, "model.embed_tokens.lora_b": b})
    c.add("token_embd.weight", 1.5 * (a.astype(np.float64) @ b.astype(np.float64)))
    yield c

    c = Case("a file of its own name", "llama", {"blk.0.attn_v.weight": values("v", KV * d, n_in)})
    c.add("blk.0.attn_v.weight", c.pair(L + "self_attn.v_proj", KV * d, n_in, infix=".mine"))
    yield c

    one = {"blk.0.attn_v.weight": values("v", KV * d, n_in)}

    def refused(name, reason, change, arch="llama", base=None, config=None, **kw):
        c = Case(name, arch, base or one, config=config, reason=reason, **kw)
        c.pair(L + "self_attn.v_proj", KV * d, n_in)
        change(c.keys)
        return c
    v = L + "self_attn.v_proj"
    yield refused("two adapters in one file", "two adapters", lambda k: (k.update({v + ".lora_A.one.weight": k.pop(v + ".lora_A.weight"),
                                                                                  v + ".lora_B.two.weight": k.pop(v + ".lora_B.weight")})))
    yield refused("flat A", "gathered", lambda k: k.update({v + ".lora_A.weight": values("f", 24)}))
    yield refused("empty A", "gathered", lambda k: k.update({v + ".lora_A.weight": np.zeros((0, 8), np.float32)}))
    yield refused("convolution", "convolution", lambda k: k.update({v + ".lora_A.weight": values("f", 3, 8, 1, 1)}))
    yield refused("the same thing twice", "twice", lambda k: k.update({P + "module.model.layers.0.self_attn.v_proj.lora_A.weight": values("x", 3, 8)}))
    yield refused("a vision tower", "another file", lambda k: k.update({P + "vision_tower.x.lora_A.weight": values("x", 3, 8)}))
    yield refused("trainable tokens", "trainable_token", lambda k: k.update({P + "model.embed_tokens.token_adapter.trainable_tokens_delta": values("x", 3, 8)}))
    yield refused("an unknown part", "lora_E", lambda k: k.update({v + ".lora_E": values("x", 3, 1)}))
    yield refused("a bias that is not there", "bias", lambda k: k.update({v + ".lora_B.bias": values("x", KV * d)}))
    yield refused("replaced and adapted", "both replaced", lambda k: k.update({v + ".weight": values("x", KV * d, n_in)}))
    yield refused("more tokens", "tokenizer", lambda k: k.update({P + "lm_head.weight": values("x", 12, n_in)}),
                  base=dict(one, **{"output.weight": values("o", 10, n_in)}))
    yield refused("DoRA without magnitudes", "lora_magnitude_vector", lambda k: None, config={"peft_type": "LORA", "lora_alpha": 6, "use_dora": True})
    yield refused("PiSSA", "init_lora_weights", lambda k: None, config={"peft_type": "LORA", "lora_alpha": 6, "init_lora_weights": "pissa"})
    yield refused("a broken pattern", 'adapter_config.json: rank_pattern: "(" cannot be used', lambda k: None, config={"peft_type": "LORA", "lora_alpha": 6, "rank_pattern": {"(": 3}})
    yield refused("an unknown architecture", "mamba", lambda k: None, arch="mamba")
    yield refused("infinite B", "infinite", lambda k: k[v + ".lora_B.weight"].__setitem__((0, 0), np.inf))
    yield refused("overflow", "range", lambda k: k[v + ".lora_B.weight"].__setitem__((0, 0), 3e38))
    yield refused("kv_b_proj", "attn_k_b", lambda k: k.update(pair(L + "self_attn.kv_b_proj", 8, 8)[0]), arch="deepseek2")
    yield refused("no such expert", "expert 7", lambda k: k.update(pair(L + "mlp.experts.7.up_proj", F, n_in)[0]), arch="qwen3moe",
                  base=dict(one, **stack), experts=E)
    # what does not fit is said; what fits is not
    def said(name, warning, config=None, title=None, copy=None, base=None):
        c = Case(name, "llama", base or one, config=dict({"peft_type": "LORA", "lora_alpha": 6}, **(config or {})),
                 warning=warning, title=title)
        c.add("blk.0.attn_v.weight", c.pair(v, KV * d, n_in))
        c.keys.update(copy or {})
        return c
    rows = values("q", H * d, n_in)
    two = dict(one, **{"blk.0.attn_q.weight": rope_rows(rows, H)})
    yield said("names that fit", "", {"target_modules": ["v_proj", "self_attn.v_proj"], "modules_to_save": None,
                                      "base_model_name_or_path": "/some/Tiny_LLAMA-3b/", "alpha_pattern": {"v_proj": 6}},
               title="tiny llama")
    yield said("a pattern instead of names", "", {"target_modules": ".*proj"})
    yield said("a module without tensors", "o_proj", {"target_modules": ["v_proj", "o_proj"]})
    yield said("a saved module without tensors", "modules_to_save", {"modules_to_save": ["score"]})
    yield said("parameters without tensors", "target_parameters", {"target_parameters": ["mlp.experts.down_proj"]})
    yield said("a pattern for nothing", "counts for no module", {"alpha_pattern": {"o_proj": 3}})
    yield said("another model", "Other-7B", {"base_model_name_or_path": "org/Other-7B"}, title="tiny llama")
    yield said("copies of the base", "", copy={v + ".base_layer.weight": one["blk.0.attn_v.weight"],
                                               L + "self_attn.q_proj.base_layer.weight": rows}, base=two)
    yield said("a copy of another base", "row 5", copy={L + "self_attn.q_proj.base_layer.weight":
                                                        rows + (np.arange(H * d) == 6)[:, None].astype(np.float32)}, base=two)
    yield said("a copy of another shape", "another shape", copy={v + ".base_layer.weight": values("x", 3, n_in)})
    yield said("a copy of nothing", "no such module", copy={L + "self_attn.x.base_layer.weight": values("x", 3, n_in)})

    # PEFT's ensure_weight_tying: one change under two names
    tied = {"token_embd.weight": values("e", 10, n_in)}
    for change in (0, 1):
        c = Case("tied, %s twins" % ("no" if change else "two"), "llama", tied, reason="tied" if change else None)
        a, b = values("ta", 3, 10), values("tb", n_in, 3)
        c.keys = {P + "model.embed_tokens.lora_embedding_A": a, P + "model.embed_tokens.lora_embedding_B": b,
                  P + "lm_head.lora_A.weight": b.T.copy(), P + "lm_head.lora_B.weight": a.T + np.float32(change)}
        c.add("token_embd.weight", 2 * (b.astype(np.float64) @ a.astype(np.float64)).T)
        yield c
    c = Case("tied, saved twice", "llama", tied)
    c.keys = {P + "model.embed_tokens.weight": values("se", 10, n_in), P + "lm_head.weight": values("se", 10, n_in)}
    c.expect["token_embd.weight"] = values("se", 10, n_in).astype(np.float64)
    yield c

    square = {"blk.0.ffn_down_exps.weight": values("sq", E, 8, 8)}
    c = Case("square experts of unknown age", "qwen3moe", square, experts=E, reason="peft_version",
             config={"peft_type": "LORA", "lora_alpha": 6, "target_parameters": ["experts.down_proj"]})
    parameters(c, L + "mlp.experts", 8, 8)
    yield c
    for version, old in (("0.19.0", True), ("0.19.1", False), ("0.21.2", False), ("0.17.0", True)):
        c = Case("square experts of " + version, "qwen3moe", square, experts=E,
                 config={"peft_type": "LORA", "lora_alpha": 6, "target_parameters": ["experts.down_proj"], "peft_version": version})
        for e, delta in enumerate(parameters(c, L + "mlp.experts", 8, 8, old=old)):
            c.add("blk.0.ffn_down_exps.weight", delta, e)
        yield c


def write_base(path, c):
    w = gguf.GGUFWriter(path, c.arch)
    if c.title:
        w.add_name(c.title)
    w.add_head_count(c.heads[0])
    w.add_head_count_kv(c.heads[1])
    if c.experts:
        w.add_expert_count(c.experts)
    for name, x in c.base.items():
        w.add_tensor(name, np.ascontiguousarray(x, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_case(folder, c):
    base, adapter = os.path.join(folder, "base.gguf"), os.path.join(folder, "adapter")
    os.makedirs(adapter, exist_ok=True)
    write_base(base, c)
    name = "adapters.safetensors" if "lora_parameters" in c.config else "adapter_model.safetensors"
    for other in os.listdir(adapter):
        os.unlink(os.path.join(adapter, other))
    write_safetensors(os.path.join(adapter, name), {k: ("F32", v) for k, v in c.keys.items()})
    with open(os.path.join(adapter, "adapter_config.json"), "w") as f:
        json.dump(c.config, f)
    return base, adapter, os.path.join(adapter, name)


def run(quench, base, out, adapter, *options):
    if os.path.exists(out):
        os.unlink(out)
    return subprocess.run([quench, "export", "--from-gguf", base, "--out", out, "--adapters", adapter, *options],
                          capture_output=True, timeout=60)


def check_case(quench, folder, c):
    base, adapter, _ = write_case(folder, c)
    out = os.path.join(folder, "out.gguf")
    done = run(quench, base, out, adapter, *c.options, *(["-q"] if c.warning is None else []))
    err = done.stderr.decode()
    if c.reason:
        check(done.returncode == 1 and not os.path.exists(out) and c.reason in err and err.count("\n") == 1,
              "%s: exit %d, %r" % (c.name, done.returncode, err))
        return
    check(done.returncode == 0, "%s: %s" % (c.name, err))
    if done.returncode != 0:
        return
    if c.warning is not None:
        check(c.warning in err and err.count("\n") == bool(c.warning), "%s: says %r" % (c.name, err))
    got = {t.name: t.data for t in gguf.GGUFReader(out).tensors}
    check(set(got) == set(c.base), "%s: tensors" % c.name)
    for name, x in c.base.items():
        want = c.expect.get(name)
        y = got[name].reshape(x.shape)
        if want is None:
            check(y.tobytes() == x.tobytes(), "%s: %s was touched" % (c.name, name))
        else:
            off = np.abs(y - want).max()
            check(off < 1e-5 and np.abs(want - x).max() > 1e-2, "%s: %s is off by %g" % (c.name, name, off))


def check_strangers(quench, folder):
    """Files that are no adapters: what they are, and what is expected."""
    base, _, _ = write_case(folder, next(cases()))
    path, out = os.path.join(folder, "stranger"), os.path.join(folder, "out.gguf")
    for data, what in ((b"just some text\n", "no format"), (b"\x80\x02}", "pickle"), (b"algg" + bytes(60), "before GGUF")):
        with open(path, "wb") as f:
            f.write(data)
        done = run(quench, base, out, path)
        err = done.stderr.decode()
        check(done.returncode == 1 and what in err and "PEFT" in err and "llama.cpp" in err and err.count("\n") == 1,
              "stranger: exit %d, %r" % (done.returncode, err))


def mutate(quench, folder, n):
    """Random bytes of good adapters changed, cut or repeated."""
    rng = random.Random(14)
    good = [c for c in cases() if not c.reason]
    out = os.path.join(folder, "out.gguf")
    for i in range(n):
        base, adapter, weights = write_case(folder, good[i % len(good)])
        path = weights if i % 4 else os.path.join(adapter, "adapter_config.json")
        data = bytearray(open(path, "rb").read())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(min(len(data), 600))
            what = rng.randrange(4)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                data[at:at + 1] = rng.choice([b"9", b"-", b"99999999999", b"0", b"\x00", b'"', b"[", b"}"])
            elif what == 2:
                del data[at:at + rng.randrange(1, 40)]
            else:
                data[at:at] = data[at:at + rng.randrange(1, 40)]
            if not data:
                break
        open(path, "wb").write(bytes(data))
        done = run(quench, base, out, adapter, "-q")
        err = done.stderr.decode("utf-8", "backslashreplace")
        check(done.returncode in (0, 1) and (done.returncode == 0) == os.path.exists(out) and
              (done.returncode == 0 or err.count("\n") == 1), "mutation %d: exit %d, %r" % (i, done.returncode, err))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--quench", required=True)
    ap.add_argument("--mutations", type=int, default=200)
    o = ap.parse_args()
    with tempfile.TemporaryDirectory(prefix="families-") as folder:
        n = 0
        for c in cases():
            check_case(o.quench, folder, c)
            n += 1
        check_strangers(o.quench, folder)
        mutate(o.quench, folder, o.mutations)
    print("%d cases, %d mutations, %d checks, %d failed" % (n, o.mutations, n_checked, len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
