cp "$FIXTURES/tiny.gguf" . && quench extract tiny.gguf blk.0.atn_v.weight v.npy || echo "exit $?"
quench extract tiny.gguf nothing v.npy || echo "exit $?"
ls
