# The input is cut while the job reads it: an error, not a signal; nothing under the final name.
"$PYTHON" "$CASES/make_fixtures.py" --slow slow.gguf
echo old > out.gguf
"$PYTHON" - <<'PY'
import os, subprocess, time
run = subprocess.Popen(["quench", "quantize", "--isa", "scalar", "-t", "1", "--pure", "slow.gguf", "out.gguf",
                        "Q4_K"], stderr=subprocess.PIPE, text=True)
while not [f for f in os.listdir(".") if f not in ("slow.gguf", "out.gguf")]:
    time.sleep(0.01)  # until the output has been opened
os.truncate("slow.gguf", 4096)
text = run.communicate()[1]
print("exit", run.returncode, text.count("\n"), "line")
for words in ("slow.gguf", "blk.0.ffn_down.weight", "bytes"):
    print(words, words in text)
PY
cat out.gguf
ls
