cp "$FIXTURES/tiny.gguf" . && quench quantize -q --override-kv general.name=str:New \
    --override-kv a=int:7 --override-kv b=float:0.5 --override-kv c=bool:true tiny.gguf out.gguf Q8_0
quench inspect --json out.gguf | $PYTHON -c '
import json, sys
print(*[(e["key"], e["type"], e["value"]) for e in json.load(sys.stdin)["metadata"][-6:]], sep="\n")'
