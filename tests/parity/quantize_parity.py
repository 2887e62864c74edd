#!/usr/bin/env python3
"""Compare whole quantized files with those of the pinned llama.cpp, byte for byte.

usage: quantize_parity.py quick|full --driver FILE|--command FILE --peer DIR --demo FILE
                          [--work DIR] [--only TEXT]

quick  the small made-up models under every option, one of them under every preset with a matrix;
       the real model widened, and under Q8_0
full   adds every preset with and without a matrix on the real model, as F16 and as F32

The matrix's four bookkeeping keys, which the llama-quantize command adds, are given to the peer's
library as overrides. Prints how many files were compared; exit status 1 if any differs, 77 if the
peer or the model is not there (scripts/setup.sh test).
"""
import argparse
import filecmp
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(HERE, "oracle_quantize.py")
sys.path.insert(0, HERE)
from oracle_quantize import FTYPES  # noqa: E402

PRESETS = [p for p in FTYPES if p != "NVFP4"]
FIRST_EIGHT = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
CHUNKS = 7

# What the quench command calls the options of the driver.
COMMAND_OPTIONS = {"--leave-output": "--leave-output-tensor", "--output-type": "--output-tensor-type",
                   "--embd-type": "--token-embedding-type", "--prune": "--prune-layers",
                   "--override": "--override-kv", "-m": "--memory"}


class Parity:
    def __init__(self, a):
        self.a = a
        self.work = a.work or tempfile.mkdtemp(prefix="quantize-parity-")
        self.is_own = not a.work
        os.makedirs(self.work, exist_ok=True)
        self.equal = 0
        self.refused = 0
        self.failures = []

    def path(self, name):
        return os.path.join(self.work, name)

    def clean(self, stem):
        for f in glob.glob(self.path(stem) + "*"):
            os.unlink(f)

    # -- the two sides ------------------------------------------------------------------------

    def command(self, src, dst, preset, options):
        args = [self.a.command, "quantize", "--quiet"]
        for key, value in options:
            args.append(COMMAND_OPTIONS.get(key, key))
            if value is not None:
                args.append("%dB" % value if key == "-m" else str(value))
        return subprocess.run(args + [src, dst, preset], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def ours(self, src, dst, preset, options):
        if self.a.command:
            return self.command(src, dst, preset, options)
        args = [self.a.driver, src, dst, preset, "--no-sync"]
        for key, value in options:
            if key == "--imatrix":
                args += ["--imatrix-path", value]
            args += [key] if value is None else [key, str(value)]
        return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def peer(self, src, dst, preset, options, entries=None):
        if ("--keep-split", None) in options:
            dst = dst[:-len(".gguf")]  # as the command does
        args = [sys.executable, ORACLE, "--lib-dir", self.a.peer, "run", src, dst,
                "F16" if preset == "COPY" else preset, "-t", "2"]
        if preset == "COPY":
            args.append("--copy")
        tail = []
        for key, value in options:
            if key in ("-t", "-m", "--isa", "--allow-unmatched"):
                continue
            args += [key] if value is None else [key, str(value)]
            if key == "--imatrix":
                tail = ["quantize.imatrix.file=str:" + value[:127],
                        "quantize.imatrix.dataset=str:calibration.txt",
                        "quantize.imatrix.entries_count=int:%d" % entries,
                        "quantize.imatrix.chunks_count=int:%d" % CHUNKS]
        for t in tail:
            args += ["--override", t]
        return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    # -- one comparison -----------------------------------------------------------------------

    def report(self, label, text):
        self.failures.append(label)
        print("DIFFERS %s: %s" % (label, text))
        sys.stdout.flush()

    def say_so_far(self, label):
        """Full runs take an hour or more: whoever stops one knows what was compared."""
        if self.a.mode == "full" and (not self.a.only or self.a.only in label):
            print("so far, after %s: %d equal, %d refused by both, %d differ"
                  % (label, self.equal, self.refused, len(self.failures)))
            sys.stdout.flush()

    def outputs(self, stem):
        return sorted(os.path.basename(f)[len(stem):] for f in glob.glob(self.path(stem) + "*"))

    def compare(self, label, src, preset, options=(), entries=None, variants=((),)):
        """One peer run; one run of ours for each variant of execution options."""
        if self.a.only and self.a.only not in label:
            return
        self.clean("peer-out")
        theirs = self.peer(src, self.path("peer-out.gguf"), preset, options, entries)
        for variant in variants:
            self.clean("our-out")
            got = self.ours(src, self.path("our-out.gguf"), preset, list(options) + list(variant))
            name = label + (" " + " ".join(str(x) for p in variant for x in p) if variant else "")
            if theirs.returncode != 0 or got.returncode != 0:
                if theirs.returncode != 0 and got.returncode == 1:
                    self.refused += 1
                    if self.outputs("our-out"):
                        self.report(name, "refused, but left " + str(self.outputs("our-out")))
                else:
                    self.report(name, "peer %s, ours %s %s" % (theirs.stdout.strip(), got.returncode,
                                                              got.stderr.strip()[-300:]))
                continue
            files = self.outputs("peer-out")
            if files != self.outputs("our-out") or not files:
                self.report(name, "files %s, ours %s" % (files, self.outputs("our-out")))
                continue
            for f in files:
                if filecmp.cmp(self.path("peer-out" + f), self.path("our-out" + f), shallow=False):
                    self.equal += 1
                else:
                    self.report(name, "bytes of %s" % (f or "the file"))
        self.clean("peer-out")
        self.clean("our-out")

    # -- inputs -------------------------------------------------------------------------------

    def make(self):
        maker = os.path.join(HERE, "..", "data", "policy", "make_models.py")
        subprocess.run([sys.executable, maker, self.work], check=True, stdout=subprocess.DEVNULL)
        self.models = {n: self.path("synth-%s.gguf" % n) for n in ("llama-gqa8", "moe8")}
        for dtype in ("F16", "F32"):
            self.models["demo-" + dtype] = self.path("demo-%s.gguf" % dtype)
        self.matrix = {}

    def widen(self, dtype):
        """The real model as F16 or F32: itself a comparison."""
        target = self.models["demo-" + dtype]
        got = self.ours(self.a.demo, target, dtype, [("--allow-requantize", None)])
        if got.returncode != 0:
            sys.exit("cannot widen the real model: " + got.stderr)
        self.compare("demo widened to " + dtype, self.a.demo, dtype, [("--allow-requantize", None)])

    def matrices(self, model, skip=None):
        key = (model, skip)
        if key not in self.matrix:
            stem = self.path("%s%s.imatrix" % (model, "-part" if skip else ""))
            args = [sys.executable, os.path.join(HERE, "make_imatrix.py"), self.models[model],
                    stem + ".gguf", stem + ".dat"]
            subprocess.run(args + (["--skip", skip] if skip else []), check=True)
            n = int.from_bytes(open(stem + ".dat", "rb").read(4), "little")
            self.matrix[key] = (stem, n)
        return self.matrix[key]

    # -- the groups ---------------------------------------------------------------------------

    def execution_variants(self):
        every = [(("-t", t), ("-m", m << 20)) for t in (1, 2, 5) for m in (8, 64)]
        return every if self.a.mode == "full" else [every[0], every[3], every[4]]

    def first_eight(self):
        for model in ("llama-gqa8", "moe8"):
            for preset in FIRST_EIGHT:
                self.compare("%s %s" % (model, preset), self.models[model], preset,
                             variants=self.execution_variants())

    def all_presets(self, models, forms):
        for model in models:
            for preset in PRESETS + ["COPY"]:
                for form in forms:
                    options, n = [], None
                    if form:
                        stem, n = self.matrices(model)
                        options = [("--imatrix", stem + form)]
                    self.compare("%s %s %s" % (model, preset, form or "no matrix"),
                                 self.models[model], preset, options, n)

    def options(self):
        llama, moe = self.models["llama-gqa8"], self.models["moe8"]
        R = ("--allow-requantize", None)
        cases = [
            (llama, "Q4_K_M", [("--pure", None)]),
            (llama, "Q4_K_M", [("--leave-output", None)]),
            (llama, "Q4_K_M", [("--output-type", "q8_0")]),
            (llama, "Q4_K_M", [("--output-type", "f16")]),
            (llama, "Q4_K_M", [("--embd-type", "q6_K")]),
            (llama, "Q8_0", [("--embd-type", "bf16"), ("--output-type", "q4_0")]),
            (llama, "F16", [("--embd-type", "q8_0")]),
            (llama, "Q4_K_M", [("--tensor-type", "attn_v=q8_0")]),
            (llama, "Q4_K_M", [("--tensor-type", "blk.[0-9].ffn_down=q2_K"),
                               ("--tensor-type", "ffn_down=iq4_xs")]),
            (llama, "F16", [("--tensor-type", "attn_v=q8_0")]),
            (llama, "Q2_K", [("--pure", None), ("--tensor-type", "ffn_up=nvfp4")]),
            (llama, "Q4_K_M", [("--prune", "3,5")]),
            (llama, "Q4_K_M", [("--prune", "0")]),
            (llama, "Q8_0", [("--prune", "79,90")]),
            (llama, "Q4_K_M", [("--override", "general.name=str:other"),
                               ("--override", "llama.context_length=int:77"),
                               ("--override", "x.float=float:1.1"), ("--override", "x.bool=bool:true"),
                               ("--override", "x.bool=bool:false")]),
            (llama, "Q4_K_M", [("--override", "llama.block_count=int:40")]),
            (llama, "Q4_K_M", [("--override", "general.file_type=int:99")]),
            (llama, "COPY", []),
            (llama, "Q8_0", [("--keep-split", None)]),
            (moe, "Q4_K_M", [("--pure", None)]),
            (moe, "Q4_K_M", [("--prune", "1,2,15")]),
            (moe, "IQ4_NL", [("--tensor-type", "ffn_gate_inp=q8_0")]),
            (moe, "MXFP4_MOE", [("--tensor-type", "exps=q4_K")]),
            (moe, "Q4_K_M", [("--override", "llama.expert_count=int:4")]),
            (moe, "Q2_K_S", []),
            (moe, "IQ2_XXS", []),
        ]
        for src, preset, options in cases:
            self.compare("option %s %s %s" % (os.path.basename(src), preset, options), src, preset,
                         options)
        for model in ("llama-gqa8", "moe8"):
            stem, n = self.matrices(model, "ffn_down")
            for preset in ("IQ2_XS", "Q4_K_M", "IQ3_XXS", "Q2_K_S"):
                self.compare("%s %s, matrix without ffn_down" % (model, preset), self.models[model],
                             preset, [("--imatrix", stem + ".gguf")], n)
        # quantized sources
        for base in ("Q8_0", "Q4_K_M", "IQ4_NL"):
            mid = self.path("mid.gguf")
            if self.ours(llama, mid, base, []).returncode != 0:
                self.report("source " + base, "cannot be made")
            for preset in ("Q8_0", "Q4_K_M", "F16", "COPY"):
                for options in ([], [R]):
                    self.compare("from %s to %s %s" % (base, preset, options), mid, preset, options)
            os.unlink(mid)
        self.mixed_matrix()
        self.splits()

    def mixed_matrix(self):
        """The dense model's matrix given to the mixture: entries that do not fit are refused."""
        stem, n = self.matrices("llama-gqa8")
        self.compare("a matrix of another model", self.models["moe8"], "Q4_K_M",
                     [("--imatrix", stem + ".gguf")], n)

    def splits(self):
        src = self.models["moe8"]
        got = self.ours(src, self.path("parts.gguf"), "COPY", [("--split-max-tensors", 40)])
        first = sorted(glob.glob(self.path("parts-*.gguf")))
        if got.returncode != 0 or len(first) < 4:
            self.report("splitting", got.stderr)
            return
        for preset in ("Q8_0", "Q4_K_M", "COPY"):
            self.compare("split input %s" % preset, first[0], preset)
            self.compare("split input %s --keep-split" % preset, first[0], preset,
                         [("--keep-split", None)])
        self.compare("split input pruned", first[0], "Q4_0", [("--keep-split", None), ("--prune", "3")])
        self.clean("parts-")

    def demo(self, presets, forms):
        for dtype in ("F16", "F32"):
            if dtype == "F32" and self.a.mode == "quick":
                continue
            self.widen(dtype)
            model = "demo-" + dtype
            for preset in presets:
                for form in forms:
                    options, n = [], None
                    if form:
                        stem, n = self.matrices(model)
                        options = [("--imatrix", stem + form)]
                    self.compare("%s %s %s" % (model, preset, form or "no matrix"),
                                 self.models[model], preset, options, n,
                                 variants=((("-t", 2),),))
                self.say_so_far("%s %s" % (model, preset))
            os.unlink(self.models[model])

    def run(self):
        self.make()
        self.first_eight()
        self.options()
        if self.a.mode == "quick":
            self.all_presets(["moe8"], [".gguf"])
            self.demo(["Q8_0"], [""])
        else:
            self.all_presets(["llama-gqa8", "moe8"], ["", ".gguf", ".dat"])
            self.demo(PRESETS, ["", ".gguf", ".dat"])
        print("quantize parity: %d files compared equal, %d refused by both, %d differ"
              % (self.equal, self.refused, len(self.failures)))
        if self.is_own:
            shutil.rmtree(self.work)
        return 1 if self.failures or not self.equal else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("mode", choices=["quick", "full"])
    ap.add_argument("--driver", help="quantize_driver: the library's calls, without the final sync")
    ap.add_argument("--command", help="quench: the same through the command")
    ap.add_argument("--peer", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--work")
    ap.add_argument("--only")
    a = ap.parse_args()
    if bool(a.driver) == bool(a.command):
        ap.error("give --driver or --command")
    for needed in (os.path.join(a.peer, "libggml-base.so"), a.demo):
        if not os.path.exists(needed):
            print("skipped: %s is not there; run scripts/setup.sh test" % needed)
            return 77
    return Parity(a).run()


if __name__ == "__main__":
    sys.exit(main())
