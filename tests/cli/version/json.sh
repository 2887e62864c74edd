quench version --json --kernels | $PYTHON -c '
import json, sys
document = json.load(sys.stdin)
types = {t["name"]: t for t in document["types"]}
print(sorted(document))
print(len(types), types["q4_K"])
print(any(k["is_chosen"] for k in document["kernels"]))'
