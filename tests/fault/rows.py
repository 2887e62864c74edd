"""The runs that the fault tests disturb, and what must hold after each: see fault_matrix.py."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OLD = b"what was there before"


class Row:
    """One command line. `args`: {in} and {out} are the folders; `outputs`: names under {out}, the first
    shard first; `is_timed`: its standard output differs from run to run; `resumes`: keeps parts when it
    fails; `loose`: outputs that hold times, which only have to be JSON; `changes`: the input that its one
    output is a copy of, which is changed in place; `inserts`: it is made longer at its front, which not all
    file systems do."""

    def __init__(self, name, args, outputs=(), is_timed=False, resumes=False, loose=(), program="faults", changes=None,
                 inserts=False):
        self.name, self.args, self.outputs = name, args.split(), list(outputs)
        self.is_timed, self.resumes, self.loose, self.program = is_timed, resumes, set(loose), program
        self.changes, self.inserts, self.old = changes, inserts, OLD


SPLIT = ["o-%05d-of-00003.gguf" % i for i in (1, 2, 3)]
ROWS = [
    Row("inspect", "inspect --full {in}/tiny.gguf"),
    Row("inspect-json", "inspect --json {in}/split-00001-of-00002.gguf"),
    Row("inspect-safetensors", "inspect {in}/model.safetensors.index.json"),
    Row("verify", "verify -t 2 {in}/tiny.gguf {in}/matrix.gguf"),
    Row("verify-json", "verify --json {in}/tiny.safetensors {in}/matrix.dat"),
    Row("quantize", "quantize {in}/tiny.gguf {out}/o.gguf Q8_0 2", ["o.gguf"], is_timed=True),
    Row("quantize-options", "quantize --imatrix {in}/weights.dat --tensor-type attn_v=q5_1 --override-kv a=int:1"
        " --pure --memory 64K --report {out}/r.json --sha256 {in}/split-00001-of-00002.gguf {out}/o.gguf Q4_0 2",
        ["o.gguf", "r.json"], is_timed=True, loose=["r.json"]),
    Row("quantize-recipe", "quantize --recipe {in}/recipe --json {in}/tiny.gguf {out}/o.gguf F16 1", ["o.gguf"],
        is_timed=True),
    Row("quantize-split", "quantize --split-max-tensors 2 {in}/tiny.gguf {out}/o.gguf Q8_0 2", SPLIT, is_timed=True),
    Row("quantize-resume", "quantize --resume {in}/tiny.gguf {out}/o.gguf Q8_0 2", ["o.gguf"], is_timed=True,
        resumes=True),
    Row("quantize-dry-run", "quantize --dry-run {in}/tiny.gguf {out}/o.gguf Q4_K_M"),
    Row("export", "export --from-gguf {in}/tiny.gguf --out {out}/o.gguf --dtype q8_0", ["o.gguf"], is_timed=True),
    Row("export-planes", "export --from-gguf {in}/wide.gguf --out {out}/o.gguf --ptqtp=2 --report {out}/r.json -t 2",
        ["o.gguf", "r.json"], is_timed=True, loose=["r.json"]),
    Row("export-copy", "export --from-gguf {in}/tiny.gguf --out {out}/o.gguf", ["o.gguf"], is_timed=True),
    Row("export-adapters", "export --from-gguf {in}/tiny.gguf --out {out}/o.gguf --adapters {in}/adapter -t 2",
        ["o.gguf"], is_timed=True),
    Row("edit", "edit --set general.name=x --set a=u32[]:[1,2] --set-file b={in}/recipe --remove general.file_type"
        " --rename-tensor output_norm.weight=norm {in}/tiny.gguf {out}/o.gguf", ["o.gguf"], is_timed=True),
    Row("edit-split", "edit --set a=u8:1 --keep-split --sha256 -t 2 {in}/split-00001-of-00002.gguf {out}/o.gguf",
        ["o-%05d-of-00002.gguf" % i for i in (1, 2)], is_timed=True),
    Row("edit-in-place", "edit --in-place --set general.name=x --remove general.file_type {out}/o.gguf", ["o.gguf"],
        changes="tiny.gguf"),
    Row("edit-insert", "edit --in-place --json --set general.note=string:" + 300 * "y" + " {out}/o.gguf", ["o.gguf"],
        is_timed=True, changes="tiny.gguf", inserts=True),
    Row("verify-folder", "verify {in}/checkpoint"),
    Row("hash", "hash -t 2 {in}/tiny.gguf"),
    Row("hash-json", "hash --json {in}/tiny.safetensors"),
    Row("hash-check", "hash --check {in}/manifest {in}/tiny.gguf"),
    Row("extract", "extract {in}/tiny.gguf blk.0.ffn_down.weight {out}/o.npy", ["o.npy"]),
    Row("extract-raw", "extract --raw {in}/tiny.gguf token_embd.weight {out}/o.bin", ["o.bin"]),
    Row("extract-stdout", "extract {in}/tiny.gguf output_norm.weight -"),
    Row("codec-encode", "codec encode --type q4_k --cols 256 --weights {in}/row.f32 {in}/rows.f32 {out}/o.bin",
        ["o.bin"]),
    Row("codec-decode", "codec decode --type q8_0 --cols 32 {in}/blocks.bin {out}/o.f32", ["o.f32"]),
    Row("checkpoint", "checkpoint inspect {in}/checkpoint"),
    Row("checkpoint-json", "checkpoint --json verify {in}/checkpoint"),
    Row("version", "version --kernels"),
    Row("completion", "completion bash"),
    Row("man", "man quantize"),
    Row("save", "{out}/ck 2", program="save"),
]


def quench_commands(quench):
    """The commands that the overview lists."""
    text = subprocess.run([quench, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    inside, names = False, []
    for line in text.splitlines():
        if line.startswith("  ") and line[2:3].isalpha():
            names.append(line.split()[0])
    return names


class World:
    """Folders, programs and the undisturbed result of each row."""

    def __init__(self, options, on_disk=False):
        self.programs = {"faults": str(pathlib.Path(options.faults).resolve()),
                         "save": str(pathlib.Path(options.save).resolve())}
        self.quench = str(pathlib.Path(options.quench).resolve())
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) and not on_disk else None
        self.folder = tempfile.mkdtemp(prefix="quench-fault-", dir=base)
        self.inputs = os.path.join(self.folder, "in")
        self.out = os.path.join(self.folder, "out")
        self.mark = os.path.join(self.folder, "mark")
        self.wrong = 0
        self.n_runs = 0
        os.mkdir(self.inputs)
        os.mkdir(self.out)
        self.make_inputs()
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", QN_FAULT_MARK=self.mark)
        self.environment.setdefault(
            "ASAN_OPTIONS", "exitcode=99:detect_leaks=1:allocator_may_return_null=1")

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_inputs(self):
        sys.path.insert(0, str(HERE.parent / "cli"))
        import make_fixtures as m
        subprocess.run([sys.executable, HERE.parent / "cli" / "make_fixtures.py", self.inputs], check=True)
        write = lambda name, data: pathlib.Path(self.inputs, name).write_bytes(data)
        write("rows.f32", m.f32(m.numbers(256 * 20, 3)))
        write("row.f32", m.f32([1 + abs(x) for x in m.numbers(256, 4)]))
        write("blocks.bin", (b"\x00\x3c" + bytes(range(32))) * 64)
        write("recipe", b"attn_v = q8_0\nffn_down = q4_0\n")
        entries = [(b"blk.0.attn_v.weight", 64), (b"blk.0.ffn_down.weight", 64), (b"token_embd.weight", 64)]
        import struct
        data = struct.pack("<i", len(entries))
        for name, n in entries:
            data += struct.pack("<i", len(name)) + name + struct.pack("<ii", 2, n) + m.f32([1.0] * n)
        write("weights.dat", data)
        write("wide.gguf", m.gguf(
            [("general.architecture", m.STRING, "llama"), ("llama.block_count", m.U32, 1)],
            [("blk.0.ffn_down.weight", m.TYPE_F16, (256, 8), m.f16(m.numbers(256 * 8, 5))),
             ("blk.0.ffn_up.weight", m.TYPE_F32, (256, 4), m.f32(m.numbers(256 * 4, 6)))]))
        done = subprocess.run([self.quench, "hash", os.path.join(self.inputs, "tiny.gguf")],
                              stdout=subprocess.PIPE, check=True)
        write("manifest", done.stdout)
        for folder, _, files in os.walk(self.inputs):
            for name in files:
                os.chmod(os.path.join(folder, name), 0o444)
        self.input_digest = self.digest_inputs()

    def digest_inputs(self):
        total = hashlib.sha256()
        for folder, _, files in sorted(os.walk(self.inputs)):
            for name in sorted(files):
                total.update(name.encode() + pathlib.Path(folder, name).read_bytes())
        return total.hexdigest()

    # --- running --------------------------------------------------------------------------------

    def clean(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def command(self, row, program=None):
        filled = [a.replace("{in}", self.inputs).replace("{out}", self.out) for a in row.args]
        return [program or self.programs[row.program]] + filled

    def run(self, row, fault=None, **more):
        environment = dict(self.environment)
        if fault:
            environment["QN_FAULT"] = fault
        if os.path.exists(self.mark):
            os.unlink(self.mark)
        self.n_runs += 1
        done = subprocess.run(self.command(row), env=environment, stdin=subprocess.DEVNULL, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False, **more)
        return done, os.path.exists(self.mark)

    def put_changed(self, row):
        self.had_old = True
        shutil.copyfile(os.path.join(self.inputs, row.changes), os.path.join(self.out, row.outputs[0]))

    def prepare(self, row, with_old):
        """An empty folder of outputs, or one that holds what a run replaces."""
        self.clean()
        self.had_old = with_old
        if row.program == "save":
            done = subprocess.run([self.programs["save"], os.path.join(self.out, "ck"), "1"], env=self.environment)
            assert done.returncode == 0
        elif row.changes:
            self.put_changed(row)
        elif with_old:
            for name in row.outputs:
                pathlib.Path(self.out, name).write_bytes(OLD)

    def undisturbed(self, row):
        self.prepare(row, False)
        done, _ = self.run(row)
        if row.inserts and done.returncode == 1 and b"this file system inserts none" in done.stderr:
            return False
        if done.returncode != 0:
            sys.exit(f"{row.name}: fails undisturbed: {done.stderr.decode()}")
        row.stdout = done.stdout
        row.expected = {name: pathlib.Path(self.out, name).read_bytes() for name in row.outputs}
        if row.program != "save" and sorted(os.listdir(self.out)) != sorted(row.outputs):
            sys.exit(f"{row.name}: makes {os.listdir(self.out)}, the table says {row.outputs}")
        row.old = pathlib.Path(self.inputs, row.changes).read_bytes() if row.changes else OLD
        return True

    # --- judging --------------------------------------------------------------------------------

    def complain(self, row, what, text, done=None):
        self.wrong += 1
        print(f"WRONG {row.name} {what}: {text}")
        if done is not None:
            print("      status", done.returncode, "stderr", done.stderr.decode("utf-8", "replace")[-1500:])

    def states(self, row):
        """What stands under each final name: absent, old, new or broken."""
        found = []
        for name in row.outputs:
            path = pathlib.Path(self.out, name)
            data = path.read_bytes() if path.exists() else None
            if data is None:
                found.append("absent")
            elif data == row.old:
                found.append("old")
            elif name in row.loose:
                try:
                    json.loads(data)
                    found.append("new")
                except ValueError:
                    found.append("broken")
            else:
                found.append("new" if data == row.expected[name] else "broken")
        return found

    def recover(self, row, what, done):
        """A file that was being changed in place may be half changed, if its journal says so."""
        path = os.path.join(self.out, row.outputs[0])
        if not os.path.exists(path + ".quench-patch"):
            return
        if done.returncode == 1 and b"--recover" not in done.stderr and "remove" not in what:
            self.complain(row, what, "a journal stays, and nothing is said of it", done)
        look = subprocess.run([self.quench, "inspect", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if look.returncode != 1 or b"--recover" not in look.stderr:
            self.complain(row, what, "the journal is not seen", look)
        fixed = subprocess.run([self.quench, "edit", "--quiet", "--recover", path], stderr=subprocess.PIPE)
        if fixed.returncode != 0:
            self.complain(row, what, "it is not recovered", fixed)

    def check_finals(self, row, what, done):
        if row.changes:
            self.recover(row, what, done)
        found = self.states(row)
        if row.changes and found == ["absent"]:
            self.complain(row, what, "the file is gone", done)
        if "broken" in found:
            self.complain(row, what, f"half-written: {dict(zip(row.outputs, found))}", done)
        if row.outputs == SPLIT and "new" in found and found[0] in ("old", "new") and len(set(found)) > 1:
            self.complain(row, what, f"shards of two models: {found}", done)
        return found

    def check_leftovers(self, row, what, done):
        extra = set(os.listdir(self.out)) - set(row.outputs)
        if row.resumes:
            extra = {name for name in extra if not name.endswith((".quench-part", ".quench-journal"))}
        if extra and row.program != "save":
            self.complain(row, what, f"left behind {sorted(extra)}", done)

    def check_save(self, row, what, done):
        """Whatever happened, the folder or its prev/ is a complete save; the next save works."""
        place = os.path.join(self.out, "ck")
        look = subprocess.run([self.quench, "checkpoint", "verify", place], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if look.returncode != 0:
            self.complain(row, what, f"no complete save: {look.stderr.decode()}", done)
        if done.returncode == 0 and b"prev/" in look.stdout:
            self.complain(row, what, "it says done, but the save is the one before", done)
        if done.returncode in (0, 1) and "remove" not in what:
            extra = [n for _, _, files in os.walk(place) for n in files if ".tmp-" in n]
            if extra:
                self.complain(row, what, f"left behind {extra}", done)
        again = subprocess.run([self.programs["save"], place, "3"], env=self.environment, stderr=subprocess.PIPE)
        look = subprocess.run([self.quench, "checkpoint", "verify", place], stdout=subprocess.PIPE)
        if again.returncode != 0 or look.returncode != 0 or b"prev/" in look.stdout:
            self.complain(row, what, "the next save fails", again)

    def judge(self, row, what, done, must_pass=False, may_leave=False, goes_on=False):
        """`must_pass`: the fault is one that nobody may notice; `goes_on`: it is still there for the next run."""
        if done.returncode not in (0, 1):
            self.complain(row, what, "neither done nor a plain failure", done)
        elif done.returncode == 1:
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            if must_pass:
                self.complain(row, what, "should not have been noticed", done)
            is_said = b'"is_ok": false' in done.stdout if "--json" in row.args and not lines else lines != []
            if not is_said or not all(line.startswith("quench: ") and "Success" not in line for line in lines):
                self.complain(row, what, "the message is missing or no message", done)
        else:
            if not row.is_timed and done.stdout != row.stdout:
                self.complain(row, what, "it says done, but its standard output differs", done)
            if any(state != "new" for state in self.states(row)) or (row.changes and len(os.listdir(self.out)) > 1):
                self.complain(row, what, f"it says done, but the outputs are {self.states(row)}", done)
        if row.program == "save":
            self.check_save(row, what, done)
        else:
            found = self.check_finals(row, what, done)
            before = {"old" if self.had_old else "absent"}
            if row.outputs == SPLIT and done.returncode == 1 and set(found) not in (before, {"new"}):
                self.complain(row, what, f"it failed and lost what was there: {found}", done)
            if not may_leave:
                self.check_leftovers(row, what, done)
        if row.resumes and done.returncode == 1 and not goes_on:
            self.check_resumed(row, what)

    def check_resumed(self, row, what):
        """A run that kept its parts is finished by the next one, or that one starts over."""
        done, _ = self.run(row)
        if done.returncode != 0 or self.states(row) != ["new"] * len(row.outputs):
            self.complain(row, what, "the next run does not finish it", done)
