#!/usr/bin/env python3
"""Logits of merged models against base + adapter, in the peer's own library.

usage: logits.py --quench FILE --peer DIR --demo FILE [--tiny]

For the demo model (widened to F32 and F16) and the tiny models of make_adapters.py: the peer runs the base
with the GGUF adapter, and the file that `quench export --adapters` made of the PEFT form; all positions of
one prompt are compared. error = rms(difference) / rms(logits), the median over positions. The adapters are
strong: what they change is many times the limits, which is checked too.
Exit status 1 if a limit is passed, 77 without the peer or the model.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print("skipped: %s (scripts/setup.sh test)" % missing)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
N_TOKENS = 24
# adapter type, type of base and result -> limit (measured for a correct merge: a third of it and less)
LIMITS = {("F32", "f32"): 1e-5, ("F32", "f16"): 3e-3, ("F16", "f16"): 3e-3, ("F32", "bf16"): 2e-2}


class Params(ctypes.Structure):
    """Larger than the library's own parameter structs: those come and go in memory, by value, and only
    few of their fields are touched here."""
    _fields_ = [("words", ctypes.c_int32 * 128)]


N_CTX, N_BATCH, N_UBATCH, THREADS, BATCH_THREADS, FLASH_ATTENTION, TYPE_K, TYPE_V = 0, 1, 2, 7, 8, 13, 26, 27    # of llama_context_params, v0.4.0


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)),
                ("embd", ctypes.c_void_p), ("pos", ctypes.POINTER(ctypes.c_int32)),
                ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
                ("logits", ctypes.POINTER(ctypes.c_int8))]


class Peer:
    def __init__(self, folder):
        libs = sorted(os.listdir(folder))
        self.open = [ctypes.CDLL(os.path.join(folder, n), mode=ctypes.RTLD_GLOBAL)
                     for start in ("libggml-base", "libggml.", "libllama.")
                     for n in libs if n.startswith(start)]
        ggml, lib = self.open[-2], self.open[-1]
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *a: None)
        lib.llama_log_set(self.quiet, None)
        ggml.ggml_backend_load_all_from_path(folder.encode())
        lib.llama_backend_init()
        for name, result, args in (
                ("llama_model_default_params", Params, []), ("llama_context_default_params", Params, []),
                ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, Params]),
                ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, Params]),
                ("llama_adapter_lora_init", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
                ("llama_set_adapters_lora", ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
                ("llama_model_get_vocab", ctypes.c_void_p, [ctypes.c_void_p]),
                ("llama_vocab_n_tokens", ctypes.c_int32, [ctypes.c_void_p]),
                ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
                ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p]),
                ("llama_free", None, [ctypes.c_void_p]), ("llama_model_free", None, [ctypes.c_void_p])):
            f = getattr(lib, name)
            f.restype, f.argtypes = result, args
        self.lib = lib

    def logits(self, path, adapter=None):
        lib = self.lib
        model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not model:
            raise SystemExit("the peer does not load %s" % path)
        params = lib.llama_context_default_params()
        w = params.words
        if (w[FLASH_ATTENTION], w[TYPE_K], w[TYPE_V]) != (-1, 1, 1):
            raise SystemExit("the peer's context parameters are laid out in another way")
        w[N_CTX] = w[N_BATCH] = w[N_UBATCH] = 64
        w[THREADS] = w[BATCH_THREADS] = 1                            # several spin while the machine is busy
        w[FLASH_ATTENTION] = w[TYPE_K] = w[TYPE_V] = 0               # F32 keys and values: the sharp test
        context = lib.llama_init_from_model(model, params)
        if adapter:
            lora = lib.llama_adapter_lora_init(model, adapter.encode())
            if not lora:
                raise SystemExit("the peer does not load the adapter %s" % adapter)
            one = (ctypes.c_void_p * 1)(lora)
            if lib.llama_set_adapters_lora(context, one, 1, (ctypes.c_float * 1)(1.0)) != 0:
                raise SystemExit("the peer does not take the adapter")
        n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        tokens = (np.arange(N_TOKENS) * 7919 + 13) % min(n_vocab, 320 if n_vocab == 320 else 10 ** 9)
        seq = [(ctypes.c_int32 * 1)(0) for _ in range(N_TOKENS)]
        batch = Batch(N_TOKENS, (ctypes.c_int32 * N_TOKENS)(*tokens.tolist()), None,
                      (ctypes.c_int32 * N_TOKENS)(*range(N_TOKENS)), (ctypes.c_int32 * N_TOKENS)(*[1] * N_TOKENS),
                      (ctypes.POINTER(ctypes.c_int32) * N_TOKENS)(*[ctypes.cast(s, ctypes.POINTER(ctypes.c_int32)) for s in seq]),
                      (ctypes.c_int8 * N_TOKENS)(*[1] * N_TOKENS))
        if lib.llama_decode(context, batch) != 0:
            raise SystemExit("the peer does not decode with %s" % path)
        out = np.ctypeslib.as_array(lib.llama_get_logits(context), (N_TOKENS, n_vocab)).astype(np.float64)
        lib.llama_free(context)
        lib.llama_model_free(model)
        return out


def error(got, want):
    rms = np.sqrt(((got - want) ** 2).mean(axis=1)) / np.sqrt((want ** 2).mean(axis=1))
    return float(np.median(rms))


def compare(peer, what, base, adapter, merged, limit):
    want = peer.logits(base, adapter)
    effect = error(peer.logits(base), want)
    found = error(peer.logits(merged), want)
    ok = found <= limit and effect > 10 * limit
    print("%-4s %-44s error %.2e (limit %.0e), the adapter's effect %.2f" % ("ok" if ok else "FAIL", what, found, limit, effect))
    return ok


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--quench", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--tiny", action="store_true", help="only the tiny models")
    o = ap.parse_args()
    if not os.path.isdir(o.peer) or not (o.tiny or os.path.exists(o.demo)):
        print("skipped: the peer or the demo model is not there (scripts/setup.sh test)")
        return 77
    make = [sys.executable, os.path.join(HERE, "make_adapters.py")]
    ok = True
    peer = Peer(o.peer)
    with tempfile.TemporaryDirectory(prefix="logits-") as work:
        merged = os.path.join(work, "merged.gguf")
        subprocess.run([*make, work], check=True, stdout=subprocess.DEVNULL)
        for case, m in (("all-r8-f16", "llama"), ("qv-r4-f32", "llama"), ("rslora-r16", "llama"), ("moe-per-expert", "moe"),
                        ("moe-target-parameters", "moe"), ("embed-and-head", "llama")):
            base = os.path.join(work, "base", m, m + "-f32.gguf")
            subprocess.run([o.quench, "export", "-q", "--from-gguf", base, "--out", merged, "--adapters",
                            os.path.join(work, case, "peft")], check=True)
            limit = 2e-3 if case == "all-r8-f16" else 1e-5   # the peer rounds activations to the adapter's type
            ok &= compare(peer, "%s on f32" % case, base, os.path.join(work, case, "gguf", "adapter.gguf"), merged, limit)
        if o.tiny:
            return 0 if ok else 1
        for dtype in ("F32", "F16", "BF16"):
            subprocess.run([o.quench, "quantize", "-q", "--allow-requantize", o.demo,
                            os.path.join(work, "demo-%s.gguf" % dtype.lower()), dtype], check=True)
        for adapter_type, dtype in LIMITS:
            folder = os.path.join(work, "demo-" + adapter_type)
            base = os.path.join(work, "demo-%s.gguf" % dtype)
            if not os.path.isdir(folder):
                subprocess.run([*make, folder, "--for", base, "--dtype", adapter_type], check=True, stdout=subprocess.DEVNULL)
            for form in ("peft", "seed") if dtype == "f32" else ("peft",):
                subprocess.run([o.quench, "export", "-q", "--from-gguf", base, "--out", merged, "--adapters",
                                os.path.join(folder, form)], check=True)
                ok &= compare(peer, "demo model, %s %s adapter on %s" % (adapter_type, form, dtype), base,
                              os.path.join(folder, "gguf", "adapter.gguf"), merged, LIMITS[adapter_type, dtype])
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
