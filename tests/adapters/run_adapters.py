#!/usr/bin/env python3
"""`quench export --adapters` on every case that make_adapters.py writes: 33 adapters in up to four forms
on bases of four types.

usage: run_adapters.py --quench FILE [--seed N]... [--only CASE,...] [--keep DIR]

merge, full  the merged tensors are those of expect.safetensors (exact sums in double) within the roundings
             of the base and of the output; all forms of a case give the same file; every other tensor has
             the base's bytes, and every key the base's value, in its order
refuse       exit status 1, the reason named, nothing written
Further: no option that only says how to work changes a byte; merging straight to a type equals merging to
F32 and converting; adapters merged together equal adapters merged one after the other.
Exit status 1 if anything differs, 77 without numpy and gguf.
"""
import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print("skipped: %s (scripts/setup.sh test)" % missing)
    sys.exit(77)

import make_adapters

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = ["f32", "f16", "bf16", "q8_0"]
HALF_ULP = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}
SUM_ERROR = 4e-6    # of (r + 3) 2^-24 |s| sum |B||A|, for the ranks and scales of the cases

# What the message of a refusal must name.
REASONS = {
    "loha": "LOHA", "alora": "alora_invocation_tokens", "missing-b": "no B", "rank-mismatch": "rank 3",
    "shape-mismatch": "257 columns", "unknown-module": "extra_proj", "layer-out-of-range": "layers.9",
    "nan-in-a": "NaN", "wrong-rank-in-config": "rank 4", "no-alpha": "--alpha", "kohya": "lora_unet_",
    "wrong-arch": "qwen2", "not-an-adapter": "general.type",
}
# Cases that something is to be said of.
QUIRKS = {"zero-b"}
RECORD = "quench.merged_adapters"

n_checked = 0
bad = []


def check(ok, what):
    global n_checked
    n_checked += 1
    if not ok:
        bad.append(what)
        print("FAIL", what)


def run(o, *args):
    """Exit status, standard output, messages that are about the adapter."""
    done = subprocess.run([o.quench, "export", *args], capture_output=True, text=True)
    err = "".join(line for line in done.stderr.splitlines(True) if "quantization_version" not in line)
    return done.returncode, done.stdout, err


def read_safetensors(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(data[a:b], np.float32).reshape(t["shape"])
    return out


class Model:
    """A GGUF: raw tensors, values as f64, keys in order."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.raw = {t.name: (int(t.tensor_type), tuple(int(x) for x in t.shape), t.data.tobytes())
                    for t in reader.tensors}
        self.tensors = {t.name: t for t in reader.tensors}
        self.keys = [(k, [int(x) for x in f.types], b"".join(p.tobytes() for p in f.parts[1:]))
                     for k, f in reader.fields.items() if not k.startswith("GGUF.")]

    def values(self, name):
        t = self.tensors[name]
        x = gguf.quants.dequantize(t.data, t.tensor_type)
        return x.reshape([int(n) for n in reversed(t.shape)]).astype(np.float64)


def tolerance(dtype, want, base):
    """Half a unit in the last place of the output, and what the sums may be off."""
    if dtype != "q8_0":
        return HALF_ULP[dtype] * np.abs(want) + SUM_ERROR
    blocks = np.abs(want).reshape(-1, 32).max(axis=1) * (0.502 / 127)
    return np.repeat(blocks, 32).reshape(want.shape) + 1e-5 + 2.0 ** -11 * np.abs(want)


def check_merged(what, dtype, base, f32, out, expect):
    """expect is made with the F32 base; another base differs from that by what it was rounded."""
    for name, tensor in expect.items():
        if name not in out.raw:
            check(False, "%s: %s is missing" % (what, name))
            continue
        source = name if name in base.raw else "token_embd.weight"
        got = out.values(name)
        want = tensor.astype(np.float64)
        shift = base.values(source) - f32.values(source)
        plain = want + shift                     # W + s B A
        error = np.abs(got - plain)
        limit = tolerance(dtype, plain, base)
        is_saved = "modules-to-save" in what and name == "output.weight"
        if "dora" in what or is_saved:   # not a sum: the base's rounding is scaled, or gone
            error = np.abs(got - want)
            limit = tolerance(dtype, want, base) + (np.abs(shift).max() if "dora" in what else 0) * 2
        check(bool(np.all(error <= limit)), "%s: %s is off by %g" % (what, name, float((error - limit).max())))
    check(set(out.raw) - set(base.raw) <= {"output.weight"}, "%s: tensors" % what)
    check([n for n in out.raw if n in base.raw] == list(base.raw), "%s: order" % what)
    for name, raw in base.raw.items():
        if name not in expect:
            check(out.raw[name] == raw, "%s: %s was touched" % (what, name))
    check(out.keys[:len(base.keys)] == base.keys, "%s: the base's keys" % what)
    check([k[0] for k in out.keys[len(base.keys):]] == [RECORD], "%s: keys behind the base's" % what)


def check_case(o, root, work, c, bases):
    folder = os.path.join(root, c["name"])
    expect_json = json.load(open(os.path.join(folder, "expect.json")))
    path = os.path.join(folder, "expect.safetensors")
    expect = read_safetensors(path) if os.path.exists(path) else {}
    for dtype in TYPES:
        base_path = os.path.join(root, "base", c["base"], "%s-%s.gguf" % (c["base"], dtype))
        first = None
        for form in c["forms"]:
            out = os.path.join(work, "out.gguf")
            what = "%s/%s on %s" % (c["name"], form, dtype)
            args = ["--from-gguf", base_path, "--out", out, "--adapters", os.path.join(folder, form)]
            if os.path.exists(out):
                os.unlink(out)
            if expect_json["verdict"] == "refuse":
                status, _, err = run(o, *args, "--allow-requantize")
                check(status == 1 and not os.path.exists(out), "%s: not refused" % what)
                check(REASONS[c["name"]] in err and err.count("\n") == 1, "%s: says %r" % (what, err))
                continue
            if c["name"].startswith("tied-"):
                status, _, err = run(o, *args)
                check(status == 1 and "tied" in err and not os.path.exists(out), "%s: tied: %r" % (what, err))
                args.append("--untie")
            if dtype == "q8_0" and c["name"] != "zero-b":
                status, _, err = run(o, *args)
                check(status == 1 and "--allow-requantize" in err, "%s: quantized base: %r" % (what, err))
            status, stdout, err = run(o, *args, "--allow-requantize")
            check(status == 0, "%s: %s" % (what, err))
            if status != 0:
                continue
            check("warning" not in err or c["name"] in QUIRKS, "%s: warns: %s" % (what, err))
            if c["name"] == "zero-b":
                check("nothing changes" in err, "%s: does not say that nothing changes" % what)
            for name in expect:
                check(name in stdout or c["name"] == "zero-b" or
                      (c["name"] == "tied-embed" and name == "output.weight"), "%s: %s is not listed" % (what, name))
            check_merged(what, dtype, bases[c["base"], dtype], bases[c["base"], "f32"], Model(out), expect)
            if first is None:
                first = os.path.join(work, "first.gguf")
                shutil.copyfile(out, first)
            else:
                check(filecmp.cmp(first, out, shallow=False), "%s: not the file of form %s" % (what, c["forms"][0]))


def check_same_bytes(o, root, work):
    """How the work is done changes nothing."""
    base = os.path.join(root, "base", "llama", "llama-f16.gguf")
    moe = os.path.join(root, "base", "moe", "moe-bf16.gguf")
    for case, source in (("all-r8-bf16", base), ("rslora-r16", base), ("moe-target-parameters", moe), ("dora", base)):
        adapter = os.path.join(root, case, "peft")
        a, b = os.path.join(work, "a.gguf"), os.path.join(work, "b.gguf")
        status, _, err = run(o, "-q", "--from-gguf", source, "--out", a, "--adapters", adapter)
        check(status == 0, "%s: %s" % (case, err))
        for how in (["--threads", "1"], ["--threads", "5"], ["--isa", "scalar"], ["--memory", "1M", "--threads", "1"],
                    ["--isa", "scalar", "--threads", "3", "--memory", "64M"]):
            status, _, err = run(o, "-q", "--from-gguf", source, "--out", b, "--adapters", adapter, *how)
            check(status == 0 and filecmp.cmp(a, b, shallow=False), "%s: %s changes bytes %s" % (case, how, err))


def check_one_pass(o, root, work):
    """Straight to a type, and by way of F32."""
    wide, want, got = (os.path.join(work, n) for n in ("wide.gguf", "want.gguf", "got.gguf"))
    for case, m, base in (("all-r8-f16", "llama", "f16"), ("moe-per-expert", "moe", "bf16"), ("tied-head", "tied", "f32"),
                          ("embed-and-head", "llama", "bf16")):
        source = os.path.join(root, "base", m, "%s-%s.gguf" % (m, base))
        adapter = ["--adapters", os.path.join(root, case, "peft")] + (["--untie"] if m == "tied" else [])
        status, _, err = run(o, "-q", "--from-gguf", source, "--out", wide, "--dtype", "f32", *adapter)
        check(status == 0, "%s: %s" % (case, err))
        for dtype in ("q4_k", "q8_0", "bf16", "iq4_xs"):
            run(o, "-q", "--from-gguf", wide, "--out", want, "--dtype", dtype)
            status, _, err = run(o, "-q", "--from-gguf", source, "--out", got, "--dtype", dtype, *adapter)
            check(status == 0 and filecmp.cmp(want, got, shallow=False), "%s: one pass to %s %s" % (case, dtype, err))
        for preset in ("Q4_K_M", "Q8_0"):
            subprocess.run([o.quench, "quantize", "-q", wide, want, preset], check=True)
            status, _, err = run(o, "-q", "--from-gguf", source, "--out", got, "--preset", preset, *adapter)
            check(status == 0 and filecmp.cmp(want, got, shallow=False), "%s: one pass to %s %s" % (case, preset, err))


def check_options(o, root, work):
    base = os.path.join(root, "base", "llama", "llama-f32.gguf")
    one, two = (os.path.join(root, n, "peft") for n in ("qv-r4-f32", "mixed-dtypes"))
    a, b, both = (os.path.join(work, n) for n in ("a.gguf", "b.gguf", "both.gguf"))
    status, _, err = run(o, "-q", "--from-gguf", base, "--out", a, "--adapters", one)
    status, _, err = run(o, "--from-gguf", a, "--out", b, "--adapters", two)
    check(status == 0 and "already" not in err, "second adapter: %s" % err)
    status, _, err = run(o, "-q", "--from-gguf", base, "--out", both, "--adapters", one, "--adapters", two)
    check(status == 0 and filecmp.cmp(b, both, shallow=False), "two at once: %s" % err)
    status, _, err = run(o, "--from-gguf", b, "--out", both, "--adapters", os.path.join(root, "qv-r4-f32", "gguf"))
    check(status == 0 and "already" in err, "a second merge of the same adapter in another form: %r" % err)
    plain = Model(base)
    status, _, err = run(o, "-q", "--from-gguf", base, "--out", a, "--adapters", one, "--no-record")
    check(status == 0 and Model(a).keys == plain.keys, "--no-record: %s" % err)
    # --scale and --alpha: alpha 8, rank 4; an alpha of 16 is a strength of 2
    run(o, "-q", "--from-gguf", base, "--out", a, "--adapters", one, "--scale", "2", "--no-record")
    for form in ("peft", "gguf", "seed", "mlx"):
        status, _, err = run(o, "-q", "--from-gguf", base, "--out", b, "--adapters",
                             os.path.join(root, "qv-r4-f32", form), "--alpha", "16", "--no-record")
        check(status == 0 and filecmp.cmp(a, b, shallow=False), "--alpha 16 of %s is --scale 2 %s" % (form, err))
    # files instead of folders, a folder without its state, an alpha that the file lacks
    seed = os.path.join(root, "qv-r4-f32", "seed", "adapters.safetensors")
    run(o, "-q", "--from-gguf", base, "--out", a, "--adapters", one)
    for path in (seed, os.path.join(root, "qv-r4-f32", "gguf", "adapter.gguf"),
                 os.path.join(one, "adapter_model.safetensors")):
        status, _, err = run(o, "-q", "--from-gguf", base, "--out", b, "--adapters", path)
        check(status == 0 and filecmp.cmp(a, b, shallow=False), "by its file: %s %s" % (path, err))
    alone = os.path.join(work, "alone")
    os.makedirs(alone, exist_ok=True)
    for source in (seed, os.path.join(one, "adapter_model.safetensors")):
        shutil.copyfile(source, os.path.join(alone, "adapters.safetensors"))
        status, _, err = run(o, "-q", "--from-gguf", base, "--out", b, "--adapters", alone)
        check(status == 1 and "--alpha" in err, "alpha that nobody knows: %r" % err)
        status, _, err = run(o, "-q", "--from-gguf", base, "--out", b, "--adapters", alone, "--alpha", "8")
        check(status == 0 and filecmp.cmp(a, b, shallow=False), "alpha by hand: %s" % err)
    # a checkpoint folder whose last save was cut short: the one before it counts
    os.makedirs(os.path.join(alone, "prev"), exist_ok=True)
    for name in ("adapters.safetensors", "trainer_state.json"):
        shutil.copyfile(os.path.join(root, "qv-r4-f32", "seed", name), os.path.join(alone, "prev", name))
    status, _, err = run(o, "--from-gguf", base, "--out", b, "--adapters", alone)
    check(status == 0 and "prev/" in err and filecmp.cmp(a, b, shallow=False), "checkpoint: %r" % err)
    # the report
    status, out, err = run(o, "--json", "--from-gguf", base, "--out", b, "--adapters", one)
    check_report(json.loads(out), root, plain)
    # no file of an adapter is replaced
    copy = os.path.join(work, "same")
    for form, name, given in (("gguf", "adapter.gguf", "adapter.gguf"), ("peft", "adapter_model.safetensors", ""),
                              ("peft", "adapter_config.json", ""), ("seed", "trainer_state.json", "adapters.safetensors")):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(os.path.join(root, "qv-r4-f32", form), copy)
        status, _, err = run(o, "-q", "--from-gguf", base, "--out", os.path.join(copy, name), "--adapters", os.path.join(copy, given))
        check(status == 1 and "a file that is read" in err and
              filecmp.cmp(os.path.join(copy, name), os.path.join(root, "qv-r4-f32", form, name), shallow=False),
              "the output is %s: %r" % (name, err))


def check_report(report, root, base):
    expect = read_safetensors(os.path.join(root, "qv-r4-f32", "expect.safetensors"))
    info = json.load(open(os.path.join(root, "qv-r4-f32", "expect.json")))["tensors"]
    merged = {t["name"]: t["merge"] for t in report["tensors"] if "merge" in t}
    check(set(merged) == set(info), "report: tensors")
    for name, m in merged.items():
        w = base.values(name)
        d = np.sqrt(((expect[name].astype(np.float64) - w) ** 2).sum()) / np.sqrt((w ** 2).sum())
        check(m["rank"] == info[name]["rank"] and m["scale"] == info[name]["scale"], "report: scale of %s" % name)
        check(abs(m["relative_change"] - d) < 1e-5 * d, "report: %s changes by %g, not %g" % (name, m["relative_change"], d))
    a = report["adapters"][0]
    check(a["form"] == "PEFT" and a["n_pairs"] == len(info) and a["n_zero"] == a["n_copies"] == 0 and
          a["scale_source"] == "adapter_config.json" and a["trained_on"] == "tiny-llama", "report: adapter %r" % a)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--quench", required=True)
    ap.add_argument("--seed", type=int, action="append")
    ap.add_argument("--only")
    ap.add_argument("--keep")
    o = ap.parse_args()
    cases = [c for c in make_adapters.CASES if not o.only or c["name"] in o.only.split(",")]
    for seed in o.seed or [1]:
        with tempfile.TemporaryDirectory(prefix="adapters-") as folder:
            root = o.keep or os.path.join(folder, "data")
            work = os.path.join(folder, "work")
            os.makedirs(work)
            subprocess.run([sys.executable, os.path.join(HERE, "make_adapters.py"), root, "--seed", str(seed)],
                           check=True, stdout=subprocess.DEVNULL)
            bases = {(m, t): Model(os.path.join(root, "base", m, "%s-%s.gguf" % (m, t)))
                     for m in ("llama", "tied", "moe") for t in TYPES}
            for c in cases:
                check_case(o, root, work, c, bases)
            if not o.only:
                check_same_bytes(o, root, work)
                check_one_pass(o, root, work)
                check_options(o, root, work)
        print("seed %d: %d cases, %d checks, %d failed" % (seed, len(cases), n_checked, len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
