# SIGINT and SIGTERM stop the work and leave nothing behind, and what was there before untouched.
"$PYTHON" "$CASES/make_fixtures.py" --slow slow.gguf
echo old > out.gguf
for signal in INT TERM; do
    "$PYTHON" - "$signal" <<'PY'
import signal, subprocess, sys, time
run = subprocess.Popen(["quench", "quantize", "--isa", "scalar", "-t", "1", "--pure",
                        "slow.gguf", "out.gguf", "Q4_K"])
time.sleep(0.4)
run.send_signal(getattr(signal, "SIG" + sys.argv[1]))
print("exit", run.wait())
PY
    cat out.gguf
    ls
done
