# A bar on a terminal, after a moment; it is wiped out at the end.
"$PYTHON" "$CASES/make_fixtures.py" --slow slow.gguf
"$PYTHON" - <<'PY'
import os, pty, re
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("quench", ["quench", "quantize", "--isa", "scalar", "-t", "1", "--pure",
                    "slow.gguf", "out.gguf", "Q4_K"])
seen = b""
while True:
    try:
        seen += os.read(terminal, 4096)
    except OSError:
        break
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
bars = re.findall(rb"\rquantize \[#* *\] +(\d+)% +[0-9.]+ [KMG]?i?B/s +\d+:\d\d left", seen)
print(len(bars) > 1, bars == sorted(bars, key=int))
print(b"\r\x1b[K" in seen)
PY
