# The script is valid bash and completes a command and an option.
command -v bash >/dev/null || { echo "no bash here" >&2; exit 77; }
quench completion bash > quench.bash
bash -u -c '
. ./quench.bash
COMP_WORDS=(quench ver) COMP_CWORD=1
_quench
echo "${COMPREPLY[@]}"
COMP_WORDS=(quench version --qu) COMP_CWORD=2
_quench
echo "${COMPREPLY[@]}"'
