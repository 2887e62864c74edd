#!/usr/bin/env python3
"""`quench export` on a real model: transcodes against ggml's own encoders, planes against published
figures.

usage: export_parity.py quick|full --quench FILE --peer DIR --demo FILE

Transcodes: of the model widened to F16, every eligible tensor must equal what ggml_quantize_chunk
makes of it, every other one the source's bytes; metadata must be the source's but for
general.file_type and general.quantization_version. Planes: the mean relative errors over the 30
matrices must be those of the reference program to three digits; the planes must not depend on
threads, instruction set or memory; an untied pass over a tied file must drop the tie stamp.
Exit status 1 if anything differs, 77 without the peer or the model.
"""
import argparse
import ctypes
import filecmp
import json
import os
import subprocess
import sys
import tempfile

QUICK = ["q8_0", "q4_K", "tq2_0"]
FULL = ["f32", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
        "iq4_nl", "iq4_xs", "iq3_s", "iq3_xxs", "iq2_s", "iq1_m", "tq1_0", "tq2_0", "mxfp4", "nvfp4",
        "q1_0"]
FIGURES = {("1", False): 0.447, ("2", False): 0.182, ("3", False): 0.070, ("2", True): 0.193,
           ("3", True): 0.069}

bad = 0


def check(ok, what):
    global bad
    if not ok:
        bad += 1
        print("FAIL", what)


class Peer:
    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
        self.lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                                 ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                                 ctypes.c_void_p]

    def encode(self, type_id, values, row_len, n_bytes):
        import numpy as np
        out = np.zeros(n_bytes, np.uint8)
        x = np.ascontiguousarray(values, np.float32)
        self.lib.ggml_quantize_chunk(type_id, x.ctypes.data, out.ctypes.data, 0, x.size // row_len,
                                     row_len, None)
        return out.tobytes()


def read(path):
    import gguf
    reader = gguf.GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    keys = {k: (f.types, [bytes(p.tobytes()) for p in f.parts[3:]])
            for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    return tensors, keys


def transcode(a, peer, source, target, work):
    import gguf
    import numpy as np
    out = os.path.join(work, "out.gguf")
    subprocess.run([a.quench, "export", "--from-gguf", source, "--out", out, "--dtype", target, "-q"],
                   check=True)
    type_id = gguf.GGMLQuantizationType[target.upper()]
    block, n_block_bytes = gguf.GGML_QUANT_SIZES[type_id]
    old, old_keys = read(source)
    new, new_keys = read(out)
    check(list(old) == list(new), "%s: names or order" % target)
    n = 0
    for name, was in old.items():
        now = new[name]
        row_len = int(was.shape[0])
        eligible = (len(was.shape) >= 2 and name.endswith(".weight") and "norm" not in name and
                    row_len % block == 0 and was.tensor_type != type_id)
        if not eligible:
            check(now.tensor_type == was.tensor_type and now.data.tobytes() == was.data.tobytes(),
                  "%s: %s is not the source's" % (target, name))
            continue
        values = was.data.astype(np.float32)
        if target == "f32":
            want = values.tobytes()
        else:
            want = peer.encode(int(type_id), values, row_len, values.size // block * n_block_bytes)
        check(now.tensor_type == type_id and now.data.tobytes() == want,
              "%s: %s differs from the peer's encoder" % (target, name))
        n += 1
    bookkeeping = {"general.file_type", "general.quantization_version"}
    for key in (set(old_keys) | set(new_keys)) - bookkeeping:
        check(old_keys.get(key) == new_keys.get(key), "%s: key %s" % (target, key))
    print("%-8s %d tensors equal the peer's, %d the source's" % (target, n, len(old) - n))


def export_planes(a, source, out, *options):
    report = out + ".json"
    subprocess.run([a.quench, "export", "--from-gguf", source, "--out", out, "--report", report, "-q",
                    *options], check=True)
    with open(report, encoding="utf-8") as f:
        tensors = json.load(f)["tensors"]
    errors = [t["relative_error"] for t in tensors if "planes" in t]
    return sum(errors) / len(errors), len(errors)


def planes(a, source, work, full):
    base = os.path.join(work, "planes.gguf")
    again = os.path.join(work, "again.gguf")
    for (k, tied), want in FIGURES.items():
        if not full and k == "3" and not tied:
            continue
        options = ["--ptqtp=" + k] + (["--ptqtp-tie"] if tied else [])
        mean, n = export_planes(a, source, base, *options)
        check(n == 30 and round(mean, 3) == want, "planes %s: %d matrices, %.4f" % (options, n, mean))
        print("planes %-30s mean relative error %.4f over %d matrices" % (" ".join(options), mean, n))
        variants = [["--threads", "1", "--memory", "8M"]]
        if full or k == "2":
            variants += [["--threads", "8"]]
        if full:
            variants += [["--isa", "scalar"]]
        for variant in variants:
            export_planes(a, source, again, *options, *variant)
            check(filecmp.cmp(base, again, shallow=False), "planes depend on %s" % variant)
    export_planes(a, source, base, "--ptqtp=2", "--ptqtp-tie", "--ptqtp-include", "blk.0.,blk.1.")
    check(tie_stamp(base) == 1, "a tied pass leaves no stamp")
    export_planes(a, base, again, "--ptqtp=2", "--ptqtp-include", "blk.2.")
    check(tie_stamp(again) is None, "an untied pass over a tied file keeps the stamp")


def tie_stamp(path):
    import gguf
    field = gguf.GGUFReader(path).get_field("fucina.ptqtp.tie_scales")
    return None if field is None else int(field.parts[field.data[0]][0])


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("mode", choices=["quick", "full"])
    ap.add_argument("--quench", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--demo", required=True)
    a = ap.parse_args()
    for need in (a.demo, os.path.join(a.peer, "libggml-base.so")):
        if not os.path.exists(need):
            print("export parity: %s is not there (scripts/setup.sh test)" % os.path.basename(need))
            return 77
    peer = Peer(a.peer)
    with tempfile.TemporaryDirectory(prefix="export-parity-") as work:
        source = os.path.join(work, "f16.gguf")
        subprocess.run([a.quench, "quantize", "-q", "--allow-requantize", a.demo, source, "F16"],
                       check=True)
        copy = os.path.join(work, "copy.gguf")
        subprocess.run([a.quench, "export", "--from-gguf", source, "--out", copy, "-q"], check=True)
        check(filecmp.cmp(source, copy, shallow=False), "verbatim is not the source")
        for target in FULL if a.mode == "full" else QUICK:
            transcode(a, peer, source, target, work)
        planes(a, source, work, a.mode == "full")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
