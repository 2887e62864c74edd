#!/usr/bin/env python3
"""make_gguf_seeds.py — write the seeds of the gguf targets: small files of the hostile corpus, and a few
programs of writer calls."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED = ["ok-small", "ok-v2", "ok-big-endian", "ok-zero-dims", "ok-five-dims", "ok-zero-elements", "ok-no-final-pad",
          "ok-tail-junk", "ok-pad-not-zero", "ok-align-1", "ok-empty-arrays", "ok-nested-array", "ok-all-kv-types",
          "ok-utf8", "ok-token-bytes", "n-kv-minus-1", "array-u64-wraps", "dims-2d-wrap-small", "offset-wraps-into-header",
          "tensor-dup", "type-unknown-200", "cut-half", "split-leftover-keys"]


def main():
    reads = ROOT / "fuzz" / "seeds" / "gguf_read"
    writes = ROOT / "fuzz" / "seeds" / "gguf_write"
    reads.mkdir(parents=True, exist_ok=True)
    writes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tests/conformance/hostile/make_hostile.py", folder], check=True)
        for name in WANTED:
            (reads / name).write_bytes((pathlib.Path(folder) / (name + ".gguf")).read_bytes())
    (writes / "keys").write_bytes(bytes([0, 0, 1, 1, 1, 2, 2, 4, 1, 4, 0, 0, 0, 0, 3, 5, 8, 0, 0, 2, 6, 250, 2, 7]))
    (writes / "tensors").write_bytes(bytes([6, 8, 4, 6, 9, 8, 7, 0, 0, 8, 9, 0, 6, 16, 36, 3, 101, 4, 253, 102, 7]))


main()
