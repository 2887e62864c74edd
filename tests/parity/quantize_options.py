#!/usr/bin/env python3
"""Compare what the options of `quench quantize` do with the pinned llama.cpp: whole files and plans.

usage: quantize_options.py --command FILE --peer DIR --demo FILE [--work DIR]

Every option of the command must be compared at least once, or stand in NOT_THE_PEERS with the test
that covers it; an option that is in neither is a failure, so that a new one cannot be forgotten. Prints
the number of comparisons for each option. Exit status 77 without the peer (scripts/setup.sh test).
"""
import argparse
import collections
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
from gguf import GGUFReader

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import quantize_parity as parity  # noqa: E402
from oracle_quantize import GGML_NAME, read_header, read_imatrix  # noqa: E402

NOT_THE_PEERS = {
    "--resume": "fault/executor", "--report": "parity/report", "--fail-above": "cli/quantize",
    "--sha256": "cli/quantize", "--no-sync": "cli/quantize", "--stats": "cli/quantize",
    "--quiet": "cli/overview", "--log-level": "cli/overview", "--no-progress": "cli/overview",
    "--help": "cli/quantize",
    "--threads": "parity/same-bytes", "--memory": "parity/same-bytes", "--isa": "parity/same-bytes",
}


class Options(parity.Parity):
    def __init__(self, a):
        super().__init__(a)
        self.seen = collections.Counter()
        self.n_cases = 0

    def quench(self, *args):
        return subprocess.run([self.a.command, "quantize", "--quiet", *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def note(self, args, label, error):
        """One comparison came to `error` (None: equal)."""
        self.n_cases += 1
        if error is not None:
            self.report(label, error)
            return
        self.equal += 1
        for word in args:
            if word.startswith("--"):
                self.seen[word.split("=")[0]] += 1

    def both(self, src, preset, ours, theirs, entries=None, at_peer=None):
        """Run both sides and compare all files; `at_peer`: another input of the peer's."""
        label = "%s %s %s" % (os.path.basename(src), preset, " ".join(ours))
        self.clean("peer-out")
        self.clean("our-out")
        want = self.peer(at_peer or src, self.path("peer-out.gguf"), preset, theirs, entries)
        got = self.quench(*ours, src, self.path("our-out.gguf"), preset)
        if want.returncode != 0 or got.returncode != 0:
            is_same = want.returncode != 0 and got.returncode == 1 and not self.outputs("our-out")
            self.refused += is_same
            self.note(ours, label, None if is_same else
                      "peer %s, ours %s: %s" % (want.stdout.strip()[-200:], got.returncode, got.stderr[-300:]))
            return
        files = self.outputs("peer-out")
        same = files and files == self.outputs("our-out") and all(
            parity.filecmp.cmp(self.path("peer-out" + f), self.path("our-out" + f), shallow=False) for f in files)
        self.note(ours, label, None if same else "files %s, ours %s, or their bytes" % (files, self.outputs("our-out")))

    # -- groups -------------------------------------------------------------------------------

    def types(self):
        llama, moe = self.models["llama-gqa8"], self.models["moe8"]
        rules = self.path("rules.txt")
        with open(rules, "w") as f:
            f.write("attn_v=q8_0\n\tBLK.[0-9].ffn_DOWN=q2_K ffn_up=IQ4_NL\n")
        as_rules = [("--tensor-type", t) for t in ("attn_v=q8_0", "blk.[0-9].ffn_down=q2_K", "ffn_up=iq4_nl")]
        self.both(llama, "Q4_K_M", ["--tensor-type-file", rules], as_rules)
        self.both(llama, "Q4_K_M", ["--tensor-type", "attn_v=q5_1", "--tensor-type-file", rules],
                  [("--tensor-type", "attn_v=q5_1")] + as_rules)
        self.both(llama, "Q5_K_M", [r"--tensor-type", r"blk\.(1|2)\d\..*_(k|q)\.=q8_0"],
                  [("--tensor-type", r"blk\.(1|2)\d\..*_(k|q)\.=q8_0")])
        self.both(llama, "Q4_K_M", ["--tensor-type", "nowhere=q8_0", "--allow-unmatched"],
                  [("--tensor-type", "nowhere=q8_0")])
        self.both(llama, "Q4_K_M", ["--output-tensor-type", "q8_0"], [("--output-type", "q8_0")])
        self.both(moe, "Q4_K_M", ["--token-embedding-type", "f16"], [("--embd-type", "f16")])
        self.both(llama, "Q3_K_L", ["--pure"], [("--pure", None)])
        self.both(llama, "Q3_K_L", ["--leave-output-tensor"], [("--leave-output", None)])
        self.both(llama, "Q4_K_M", ["--no-fallback"], [])
        recipe = self.path("recipe.txt")
        with open(recipe, "w") as f:
            f.write("# by hand\nattn_v = q6_K\n^blk\\.[02468]\\.ffn_up = q3_K\n")
        self.both(llama, "Q4_K_M", ["--recipe", recipe],
                  [("--tensor-type", "attn_v=q6_K"), ("--tensor-type", "^blk\\.[02468]\\.ffn_up=q3_K")])
        printed = self.quench("--print-recipe", llama, "Q5_K_S")
        with open(recipe, "w") as f:
            f.write(printed.stdout)
        self.both(llama, "Q5_K_S", ["--recipe", recipe], [])
        self.seen["--print-recipe"] += 1

    def requantize(self):
        mid = self.path("mid.gguf")
        self.quench(self.models["llama-gqa8"], mid, "Q8_0")
        for preset in ("Q4_K_M", "COPY", "Q8_0"):
            self.both(mid, preset, ["--allow-requantize"], [("--allow-requantize", None)])
            self.both(mid, preset, [], [])

    def filtered(self, stem, keep):
        """The matrix as the command filters it, for the peer; returns (file, number of entries)."""
        entries = [(n, v) for n, v in read_imatrix(stem + ".gguf") if keep(n)]
        with open(self.path("filtered.dat"), "wb") as f:
            f.write(struct.pack("<i", len(entries)))
            for name, values in entries:
                raw = name.encode()
                f.write(struct.pack("<i", len(raw)) + raw + struct.pack("<ii", 1, len(values)))
                f.write(struct.pack("<%df" % len(values), *values))
        return self.path("filtered.dat"), len(entries)

    def weights(self):
        for model in ("llama-gqa8", "moe8"):
            stem, n = self.matrices(model)
            src = self.models[model]
            for form in (".gguf", ".dat"):
                self.both(src, "IQ2_XS", ["--imatrix", stem + form], [("--imatrix", stem + form)], n)
            for args, keep in ((["--exclude-weights", "attn_k"], lambda name: "attn_k" not in name),
                               (["--exclude-weights", "attn_k", "--exclude-weights", "blk.3."],
                                lambda name: "attn_k" not in name and "blk.3." not in name),
                               (["--include-weights", "ffn_", "--include-weights", "attn_v"],
                                lambda name: "ffn_" in name or "attn_v" in name)):
                file, n_kept = self.filtered(stem, keep)
                options = [("--imatrix", file)]
                # the file's name is written into the output: the peer is told ours
                tail = [("--override", "quantize.imatrix.file=str:" + (stem + ".gguf")[:127])]
                for preset in ("Q4_K_M", "IQ3_XXS"):
                    self.both(src, preset, ["--imatrix", stem + ".gguf"] + args, options + tail, n_kept)

    def peer(self, src, dst, preset, options, entries=None):
        """As the base class; an override of the matrix's name replaces the one made from the path."""
        named = [v for k, v in options if k == "--override" and v.startswith("quantize.imatrix.file=")]
        if not named:
            return super().peer(src, dst, preset, options, entries)
        matrix = dict(options)["--imatrix"]
        args = [sys.executable, parity.ORACLE, "--lib-dir", self.a.peer, "run", src, dst, preset, "-t", "2",
                "--imatrix", matrix]
        for text in (named[0], "quantize.imatrix.dataset=str:calibration.txt",
                     "quantize.imatrix.entries_count=int:%d" % entries,
                     "quantize.imatrix.chunks_count=int:%d" % parity.CHUNKS):
            args += ["--override", text]
        return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def layout(self):
        llama, moe = self.models["llama-gqa8"], self.models["moe8"]
        self.both(llama, "Q4_K_M", ["--prune-layers", "5,3,3,79"], [("--prune", "3,5,79")])
        self.both(llama, "Q4_K_M", ["--override-kv", "general.name=str:other", "--override-kv", "a.b=float:0.1",
                                    "--override-kv", "llama.block_count=int:40", "--override-kv", "c=bool:true"],
                  [("--override", "general.name=str:other"), ("--override", "a.b=float:0.1"),
                   ("--override", "llama.block_count=int:40"), ("--override", "c=bool:true")])
        self.both(llama, "Q8_0", ["--keep-split"], [("--keep-split", None)])
        self.both(llama, "COPY", [], [])
        self.both(moe, "Q6_K", ["--max-buffer-size", "8"], [])
        got = self.quench("--split-max-tensors", "40", moe, self.path("parts.gguf"), "COPY")
        first = sorted(parity.glob.glob(self.path("parts-*.gguf")))
        if got.returncode != 0 or len(first) < 4:
            self.report("splitting", got.stderr)
            return
        for preset in ("Q4_K_M", "COPY"):
            self.both(first[0], preset, ["--keep-split"], [("--keep-split", None)])
            self.both(first[0], preset, [], [])
        self.clean("parts-")

    def shards(self):
        """The peer reads our shards and puts them together: the same as its own single file."""
        for args in (["--split-max-tensors", "33"], ["--split-max-size", "400K"]):
            for model, preset in (("llama-gqa8", "Q4_K_M"), ("moe8", "Q6_K")):
                self.clean("our-out")
                self.clean("peer-")
                label = "%s %s %s" % (model, preset, " ".join(args))
                got = self.quench(*args, self.models[model], self.path("our-out.gguf"), preset)
                shards = sorted(parity.glob.glob(self.path("our-out-*.gguf")))
                self.peer(self.models[model], self.path("peer-whole.gguf"), preset, [])
                if got.returncode != 0 or len(shards) < 2:
                    self.note(args, label, "%d shards %s" % (len(shards), got.stderr))
                    continue
                self.peer(shards[0], self.path("peer-merged.gguf"), "COPY", [])
                same = parity.filecmp.cmp(self.path("peer-whole.gguf"), self.path("peer-merged.gguf"), shallow=False)
                self.note(args, label, None if same else "the peer's merge of our shards is not its own file")
        self.clean("our-out")
        self.clean("peer-")

    def safetensors(self):
        """The same values as safetensors with GGUF names: the peer's file of the GGUF."""
        for model, word in (("llama-gqa8", "F16"), ("moe8", "BF16")):
            members, data = {}, []
            at = 0
            for t in GGUFReader(self.models[model]).tensors:
                raw = np.ascontiguousarray(t.data).tobytes()
                shape = [int(x) for x in reversed(t.shape)]
                dtype = "F32" if t.tensor_type.name == "F32" else word
                members[t.name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
                data.append(raw)
                at += len(raw)
            head = json.dumps(members).encode()
            src = self.path(model + ".safetensors")
            with open(src, "wb") as f:
                f.write(struct.pack("<Q", len(head)) + head + b"".join(data))
            for preset in ("Q4_K_M", "Q8_0", "F16", "COPY"):
                self.both(src, preset, ["--metadata-from", self.models[model]], [], at_peer=self.models[model])

    def plans(self):
        """--dry-run --json and --check against the peer's files."""
        llama = self.models["llama-gqa8"]
        for model in ("llama-gqa8", "moe8"):
            for preset in ("Q4_K_M", "IQ4_XS", "Q2_K", "MXFP4_MOE", "F16"):
                src, args = self.models[model], ["--dry-run", "--json"]
                out = self.path("peer-out.gguf")
                self.peer(src, out, preset, [])
                plan = json.loads(self.quench(*args, src, preset).stdout)
                ours = [(t["name"], t["ne"], t["target"]) for t in plan["tensors"]]
                want = [(n, ne, GGML_NAME[t]) for n, ne, t, _ in read_header(out)[2]]
                sizes = plan["output_bytes"] == os.path.getsize(out)
                self.note(args, "%s %s dry run" % (model, preset),
                          None if ours == want and sizes else "the plan is not the peer's file")
        self.clean("peer-out")
        self.clean("our-out")
        bad = self.path("bad.gguf")
        raw = bytearray(open(llama, "rb").read())
        for t in GGUFReader(llama).tensors:
            if t.name == "blk.7.ffn_up.weight":
                raw[t.data_offset + 100:t.data_offset + 102] = b"\x00\x7e"  # an f16 NaN
        with open(bad, "wb") as f:
            f.write(raw)
        for src in (llama, bad):
            got = self.quench("--check", src, self.path("our-out.gguf"), "Q4_K_M")
            want = self.peer(src, self.path("peer-out.gguf"), "Q4_K_M", [])
            is_same = (got.returncode != 0) == (want.returncode != 0) and not self.outputs("our-out")
            self.note(["--check"], "--check of " + os.path.basename(src), None if is_same else
                      "peer %d, ours %d %s" % (want.returncode, got.returncode, got.stderr))
            self.clean("peer-out")

    def fallbacks(self):
        """Rows of 576: the peer substitutes, and counts it; --no-fallback refuses, leaving nothing."""
        self.clean("our-out")
        log = self.path("peer.log")
        want = subprocess.run([sys.executable, parity.ORACLE, "--lib-dir", self.a.peer, "run", self.a.demo,
                               self.path("peer-out.gguf"), "Q4_K_M", "--allow-requantize", "--dry-run", "--log", log],
                              stdout=subprocess.PIPE, text=True)
        got = self.quench("--no-fallback", "--allow-requantize", self.a.demo, self.path("our-out.gguf"), "Q4_K_M")
        is_told = re.search(r"\d+ of \d+ tensor\(s\) required fallback", open(log).read()) is not None
        good = want.returncode == 0 and is_told and got.returncode == 1 and "576" in got.stderr
        self.note(["--no-fallback"], "rows of 576", None if good and not self.outputs("our-out") else
                  "peer told of a substitute: %s; ours %d %s" % (is_told, got.returncode, got.stderr))

    def all_options(self):
        text = subprocess.run([self.a.command, "quantize", "--help"], stdout=subprocess.PIPE, text=True).stdout
        return sorted(set(re.findall(r"(?m)^\s+(?:-\w, )?(--[a-z0-9-]+)", text)))

    def run(self):
        self.make()
        for group in (self.types, self.requantize, self.weights, self.layout, self.shards, self.safetensors,
                      self.plans, self.fallbacks):
            group()
        for option in self.all_options():
            if self.seen[option]:
                print("%-24s %d comparisons" % (option, self.seen[option]))
            elif option in NOT_THE_PEERS:
                print("%-24s not the peer's: %s" % (option, NOT_THE_PEERS[option]))
            else:
                self.report(option, "no comparison with the peer")
        print("quantize options: %d comparisons equal (%d of them refusals by both), %d differ"
              % (self.equal, self.refused, len(self.failures)))
        if self.is_own:
            parity.shutil.rmtree(self.work)
        return 1 if self.failures or not self.equal else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--command", required=True)
    ap.add_argument("--peer", required=True)
    ap.add_argument("--demo", required=True)
    ap.add_argument("--work")
    a = ap.parse_args()
    a.driver, a.mode, a.only = None, "quick", None
    for needed in (os.path.join(a.peer, "libggml-base.so"), a.demo):
        if not os.path.exists(needed):
            print("skipped: %s is not there; run scripts/setup.sh test" % needed)
            return 77
    return Options(a).run()


if __name__ == "__main__":
    sys.exit(main())
