# Every type has a scalar decoder; the full list depends on the machine.
quench version --kernels | awk '$1 == "decode" && $3 == "scalar" { n++ } END { print n }'
