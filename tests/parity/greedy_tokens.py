#!/usr/bin/env python3
"""The pinned llama.cpp loads what quench writes and says the same as with its own file.

usage: greedy_tokens.py quick|full --command FILE --peer DIR --demo FILE [--work DIR]

quick  Q4_K_M
full   every preset, with a matrix

For each preset the real model, widened to F16, is quantized by both sides. libllama loads both files and
continues three prompts greedily; the tokens must be equal. Each file is loaded in a process of its own.
Exit status 1 on a difference, 77 without the peer or the model (scripts/setup.sh test).
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from oracle_quantize import FTYPES  # noqa: E402

PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, in a small village,"]
N_TOKENS = 24
REFUSED = "refused by both"
ORACLE = os.path.join(HERE, "oracle_quantize.py")


class Opaque(ctypes.Structure):
    """A structure of libllama's that is passed by value, last, with room for more than it holds: its
    defaults are taken as they come, so its members need not be known."""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


class Llama:
    def __init__(self, folder):
        def one(prefix):
            names = sorted(n for n in os.listdir(folder) if n.startswith(prefix) and ".so" in n)
            return ctypes.CDLL(os.path.join(folder, names[0]), mode=ctypes.RTLD_GLOBAL)
        one("libggml-base")
        self.ggml = one("libggml.")
        self.lib = one("libllama.")
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *a: None)
        pointer, i32 = ctypes.c_void_p, ctypes.c_int32
        for name, result, arguments in (
                ("llama_log_set", None, [ctypes.c_void_p, pointer]),
                ("llama_model_default_params", Opaque, []),
                ("llama_context_default_params", Opaque, []),
                ("llama_model_load_from_file", pointer, [ctypes.c_char_p, Opaque]),
                ("llama_init_from_model", pointer, [pointer, Opaque]),
                ("llama_model_get_vocab", pointer, [pointer]),
                ("llama_vocab_n_tokens", i32, [pointer]),
                ("llama_tokenize", i32, [pointer, ctypes.c_char_p, i32, ctypes.POINTER(i32), i32,
                                         ctypes.c_bool, ctypes.c_bool]),
                ("llama_batch_get_one", Opaque, [ctypes.POINTER(i32), i32]),
                ("llama_decode", i32, [pointer, Opaque]),
                ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [pointer, i32]),
                ("llama_set_n_threads", None, [pointer, i32, i32]),
                ("llama_free", None, [pointer]), ("llama_model_free", None, [pointer])):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.lib.llama_log_set(ctypes.cast(self.quiet, ctypes.c_void_p), None)
        self.ggml.ggml_backend_load_all_from_path(folder.encode())

    def decode(self, context, tokens):
        """The token with the largest logit after these."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        if self.lib.llama_decode(context, self.lib.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode fails")
        logits = self.lib.llama_get_logits_ith(context, -1)[:self.n_vocab]
        if any(x != x for x in logits):
            sys.exit("a logit is NaN")
        return max(range(self.n_vocab), key=logits.__getitem__)

    def tokens(self, path):
        model = self.lib.llama_model_load_from_file(path.encode(), self.lib.llama_model_default_params())
        if not model:
            sys.exit("libllama does not load " + path)
        vocab = self.lib.llama_model_get_vocab(model)
        self.n_vocab = self.lib.llama_vocab_n_tokens(vocab)
        out = []
        for prompt in PROMPTS:
            context = self.lib.llama_init_from_model(model, self.lib.llama_context_default_params())
            if not context:
                sys.exit("libllama makes no context")
            self.lib.llama_set_n_threads(context, 1, 1)  # waiting threads spin
            buffer = (ctypes.c_int32 * 256)()
            n = self.lib.llama_tokenize(vocab, prompt.encode(), len(prompt), buffer, 256, True, False)
            step, said = list(buffer[:n]), []
            for _ in range(N_TOKENS):
                token = self.decode(context, step)
                said.append(token)
                step = [token]
            out.append(said)
            self.lib.llama_free(context)
        self.lib.llama_model_free(model)
        return out


def child(folder, path):
    print(json.dumps(Llama(folder).tokens(path)))
    return 0


def tokens_of(folder, path):
    got = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", folder, path],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if got.returncode != 0:
        return None, got.stderr.strip()[-300:]
    return json.loads(got.stdout), None


def make(a, preset, work, src, matrix):
    """Both files; returns an error or None, REFUSED if neither side makes one."""
    ours, theirs = os.path.join(work, "ours.gguf"), os.path.join(work, "theirs.gguf")
    got = subprocess.run([a.command, "quantize", "--quiet", "--log-level", "none", *matrix, src, ours, preset],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    want = subprocess.run([sys.executable, ORACLE, "--lib-dir", a.peer, "run", src, theirs, preset, "-t", "2", *matrix],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if got.returncode == 1 and want.returncode == 1:
        return REFUSED
    if got.returncode != 0 or want.returncode != 0:
        return "ours %d %s, peer %d %s" % (got.returncode, got.stderr.strip(), want.returncode, want.stdout.strip())
    return None


def check(a, preset, work, src, matrix):
    error = make(a, preset, work, src, matrix)
    if error == REFUSED:
        print("%s: refused by both" % preset)
        return 0
    if error is None:
        (ours, error), (theirs, other) = (tokens_of(a.peer, os.path.join(work, n + ".gguf")) for n in ("ours", "theirs"))
        error = error or other
    if error is not None:
        print("FAILS %s: %s" % (preset, error))
        return 1
    if ours != theirs:
        print("DIFFERS %s: %s, the peer's file %s" % (preset, ours, theirs))
        return 1
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3])
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("mode", choices=["quick", "full"])
    ap.add_argument("--command", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--work")
    a = ap.parse_args()
    for needed in (os.path.join(a.peer, "libggml-base.so"), a.demo):
        if not os.path.exists(needed):
            print("skipped: %s is not there; run scripts/setup.sh test" % needed)
            return 77
    presets = ["Q4_K_M"] if a.mode == "quick" else [p for p in FTYPES if p != "NVFP4"]
    n_wrong = 0
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        src, stem = os.path.join(work, "f16.gguf"), os.path.join(work, "matrix")
        subprocess.run([a.command, "quantize", "--quiet", "--allow-requantize", a.demo, src, "F16"], check=True)
        subprocess.run([sys.executable, os.path.join(HERE, "make_imatrix.py"), src, stem + ".gguf", stem + ".dat"],
                       check=True)
        for preset in presets:
            n_wrong += check(a, preset, work, src, ["--imatrix", stem + ".gguf"] if a.mode == "full" else [])
    print("greedy tokens: %d presets x %d prompts x %d tokens, %d presets differ"
          % (len(presets), len(PROMPTS), N_TOKENS, n_wrong))
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
