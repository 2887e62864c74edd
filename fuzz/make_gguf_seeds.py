#!/usr/bin/env python3
"""make_gguf_seeds.py — write the seeds of the gguf targets: small files of the hostile corpus, and a few
programs of writer calls."""
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED = ["ok-small", "ok-v2", "ok-big-endian", "ok-zero-dims", "ok-five-dims", "ok-zero-elements", "ok-no-final-pad",
          "ok-tail-junk", "ok-pad-not-zero", "ok-align-1", "ok-empty-arrays", "ok-nested-array", "ok-all-kv-types",
          "ok-utf8", "ok-token-bytes", "n-kv-minus-1", "array-u64-wraps", "dims-2d-wrap-small", "offset-wraps-into-header",
          "tensor-dup", "type-unknown-200", "cut-half", "split-leftover-keys"]


def write_splits(folder):
    """Two shards, three, one, and two of which one says that it is another one."""
    sys.path.insert(0, str(ROOT / "tests" / "cli"))
    import make_fixtures as m

    def shard(number, count, total, names):
        keys = [("split.no", m.U16, number), ("split.count", m.U16, count), ("split.tensors.count", m.I32, total)]
        return m.gguf(keys, [(name, m.TYPE_F32, (4,), m.f32([1, 2, 3, 4])) for name in names])

    sets = {"two": [shard(0, 2, 3, ["a", "b"]), shard(1, 2, 3, ["c"])],
            "three": [shard(0, 3, 2, []), shard(1, 3, 2, ["a"]), shard(2, 3, 2, ["b"])],
            "one": [shard(0, 1, 1, ["a"])],
            "wrong-number": [shard(0, 2, 2, ["a"]), shard(0, 2, 2, ["b"])],
            "same-tensor": [shard(0, 2, 2, ["a"]), shard(1, 2, 2, ["a"])]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, shards in sets.items():
        data = bytes([len(shards) - 1])
        for i, one in enumerate(shards):
            data += (struct.pack("<H", len(one)) if i + 1 < len(shards) else b"") + one
        (folder / name).write_bytes(data)


def main():
    reads = ROOT / "fuzz" / "seeds" / "gguf_read"
    writes = ROOT / "fuzz" / "seeds" / "gguf_write"
    reads.mkdir(parents=True, exist_ok=True)
    writes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tests/conformance/hostile/make_hostile.py", folder], check=True)
        for name in WANTED:
            (reads / name).write_bytes((pathlib.Path(folder) / (name + ".gguf")).read_bytes())
    write_splits(ROOT / "fuzz" / "seeds" / "gguf_split")
    (writes / "keys").write_bytes(bytes([0, 0, 1, 1, 1, 2, 2, 4, 1, 4, 0, 0, 0, 0, 3, 5, 8, 0, 0, 2, 6, 250, 2, 7]))
    (writes / "tensors").write_bytes(bytes([6, 8, 4, 6, 9, 8, 7, 0, 0, 8, 9, 0, 6, 16, 36, 3, 101, 4, 253, 102, 7]))


main()
