#!/usr/bin/env python3
"""Compare the policy tables with the choices of a llama.cpp library, by dry runs on random models.

usage: check_policy_drift.py --driver FILE --peer DIR [--models N] [--seed S] [--work DIR] [--keep]

Makes N small models of many architectures, depths, head counts, expert counts and row lengths, asks
llama_model_quantize (dry run) and quantize_driver for the type of every tensor under every preset, with
and without an importance matrix, and shows each difference. With the pinned library there must be none;
with a newer one the output is what has drifted. Exit status 1 on a difference, 77 without the library.
"""
import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import oracle_quantize as oracle  # noqa: E402

# what each architecture's hyperparameters must hold besides the common ones
EXTRA = {
    "llama": {}, "falcon": {"attention.layer_norm_epsilon": 1e-5}, "qwen2": {}, "olmo": {"attention.layer_norm_epsilon": 1e-5},
    "deci": {}, "gemma": {}, "mistral3": {}, "phi3": {}, "bloom": {"attention.layer_norm_epsilon": 1e-5},
    "starcoder2": {"attention.layer_norm_epsilon": 1e-5}, "gptneox": {"attention.layer_norm_epsilon": 1e-5, "use_parallel_residual": True},
    "qwen2moe": {}, "dbrx": {"attention.layer_norm_epsilon": 1e-5, "attention.clamp_kqv": 8.0}, "jais2": {"attention.layer_norm_epsilon": 1e-5},
    "llama-embed": {}, "gpt2": {"attention.layer_norm_epsilon": 1e-5}, "command-r": {"attention.layer_norm_epsilon": 1e-5, "logit_scale": 1.0},
}
ROWS = [256, 256, 256, 512, 512, 576, 64, 48]


def make_model(path, rng):
    arch = str(rng.choice(sorted(EXTRA)))
    layers = int(rng.choice([1, 2, 7, 16, 31, 32, 68, 80]))
    heads = int(rng.choice([1, 4, 8, 16]))
    kv = int(rng.choice([h for h in (1, 2, 4, 8, 16) if h <= heads]))
    experts = int(rng.choice([0, 0, 0, 2, 4, 8, 16]))
    w = GGUFWriter(path, arch)
    for key, value in (("block_count", layers), ("context_length", 128), ("embedding_length", 256),
                       ("feed_forward_length", 512), ("attention.head_count", heads),
                       ("attention.head_count_kv", kv), ("vocab_size", 4), ("rope.dimension_count", 256 // heads)):
        w.add_uint32("%s.%s" % (arch, key), value)
    w.add_float32(arch + ".attention.layer_norm_rms_epsilon", 1e-5)
    for key, value in EXTRA[arch].items():
        (w.add_bool if isinstance(value, bool) else w.add_float32)("%s.%s" % (arch, key), value)
    if experts:
        w.add_uint32(arch + ".expert_count", experts)
        w.add_uint32(arch + ".expert_used_count", 1)
        w.add_uint32(arch + ".expert_feed_forward_length", 256)
    w.add_string("tokenizer.ggml.model", "none")

    def add(name, *ne):
        w.add_tensor(name, np.zeros(tuple(reversed(ne)), np.float16), raw_dtype=T.F16)
    row = lambda: int(rng.choice(ROWS))
    add("token_embd.weight", row(), 2)
    if rng.random() < 0.6:
        add("output.weight", row(), 2)
    if rng.random() < 0.2:
        add("per_layer_token_embd.weight", row(), 2)
    add("output_norm.weight", 256)
    fused = rng.random() < 0.25
    odd_v = int(rng.integers(0, layers)) if rng.random() < 0.3 else -1
    for i in range(layers):
        b = "blk.%d." % i
        for part in (["attn_qkv"] if fused else ["attn_q", "attn_k", "attn_v"]) + ["attn_output"]:
            if not (i == odd_v and part == "attn_v"):
                add(b + part + ".weight", row() if rng.random() < 0.1 else 256, 2)
        stacked = experts > 1 and rng.random() < 0.9
        for part in ("ffn_down", "ffn_gate", "ffn_up"):
            if stacked:
                add(b + part + "_exps.weight", 256, 2, 3)
            else:
                add(b + part + ".weight", row() if rng.random() < 0.1 else 256, 2)
        if stacked:
            add(b + "ffn_gate_inp.weight", 256, 2)
            if rng.random() < 0.3:
                add(b + "ffn_down_shexp.weight", 256, 2)
        if rng.random() < 0.05:
            add(b + "ssm_out.weight", 256, 2)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return arch, layers, heads, kv, experts


LINE = re.compile(r"\[ *\d+/ *\d+\] (\S+) .*?type = *(\w+),(.*)")
TARGET = re.compile(r"-> .*MiB \((\w+)\)")


def child(lib_dir, path):
    """All dry runs of the peer on one model: {label: [[name, type]...] or None}."""
    lib = oracle.load(lib_dir)
    lines = []
    cb = oracle.LOGCB(lambda level, text, _: lines.append(text.decode("utf-8", "replace")))
    lib.llama_log_set(cb, None)
    matrix = (oracle.Imatrix * 2)()
    one = (ctypes.c_float * 1)(1.0)
    matrix[0].name, matrix[0].data, matrix[0].size = b"nothing", one, 1
    out = {}
    for preset, number in oracle.FTYPES.items():
        for has_matrix in (False, True):
            if preset == "NVFP4":
                continue
            p = oracle.default_params(lib)
            p.ftype, p.dry_run, p.nthread = number, True, 1
            if has_matrix:
                p.imatrix = matrix
            del lines[:]
            rc = lib.llama_model_quantize(path.encode(), b"/nonexistent/x", ctypes.byref(p))
            types = []
            for line in "".join(lines).splitlines():
                m = LINE.search(line)
                if m:
                    target = TARGET.search(m.group(3))
                    types.append([m.group(1), (target.group(1) if target else m.group(2)).lower()])
            out[preset + ("+im" if has_matrix else "")] = types if rc == 0 else None
    print(json.dumps(out))


def ours(driver, path, preset, matrix):
    args = [driver, path, "/nonexistent/x", preset, "--dry-run", "--types"]
    got = subprocess.run(args + (["--imatrix", matrix] if matrix else []), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if got.returncode != 0:
        return None, got.stderr.strip()
    return [[f[0], f[2].lower()] for f in (line.split("\t") for line in got.stdout.splitlines())], ""


def check(a, path, matrix, what):
    args = [sys.executable, os.path.abspath(__file__), "--child", a.peer, path]
    got = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if got.returncode != 0:
        print("the peer dies on %s: %s" % (what, got.stderr.strip()[-200:]))
        return 0, 0
    theirs = json.loads(got.stdout.splitlines()[-1])
    if all(v is None for v in theirs.values()):
        return 0, 0  # an architecture or hyperparameters that this peer does not take
    n, wrong = 0, 0
    for label, want in theirs.items():
        preset, has_matrix = label.replace("+im", ""), label.endswith("+im")
        have, why = ours(a.driver, path, preset, matrix if has_matrix else None)
        n += 1
        if have == want:
            continue
        wrong += 1
        if have is None or want is None:
            print("DIFFERS %s %s: peer %s, ours %s" % (what, label, "refuses" if want is None else "accepts", why or "accepts"))
            continue
        first = [(h, t) for h, t in zip(have, want) if h != t][:3]
        print("DIFFERS %s %s: %d and %d tensors; ours, peer: %s" % (what, label, len(have), len(want), first))
    return n, wrong


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3])
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--driver", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--models", type=int, default=12)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--work")
    ap.add_argument("--keep", action="store_true")
    a = ap.parse_args()
    if not os.path.exists(os.path.join(a.peer, "libggml-base.so")):
        print("skipped: no library in %s; run scripts/setup.sh test" % a.peer)
        return 77
    work = a.work or tempfile.mkdtemp(prefix="policy-drift-")
    os.makedirs(work, exist_ok=True)
    matrix = os.path.join(work, "nothing.dat")
    with open(matrix, "wb") as f:  # one entry that fits no tensor: a matrix was given, that is all
        f.write(b"\1\0\0\0\7\0\0\0nothing\1\0\0\0\1\0\0\0\0\0\x80\x3f")
    rng = np.random.default_rng(a.seed)
    n, wrong, skipped = 0, 0, 0
    for i in range(a.models):
        path = os.path.join(work, "model-%d.gguf" % i)
        what = make_model(path, rng)
        n_here, wrong_here = check(a, path, matrix, what)
        n, wrong, skipped = n + n_here, wrong + wrong_here, skipped + (n_here == 0)
        if not (a.keep and wrong_here):
            os.unlink(path)
    print("policy drift: seed %d, %d dry runs compared on %d models (%d not taken by the peer), %d differ"
          % (a.seed, n, a.models, skipped, wrong))
    if not a.work and not (a.keep and wrong):
        shutil.rmtree(work)
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
