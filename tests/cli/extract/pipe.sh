mkfifo pipe
cat pipe > got &
quench extract --raw "$FIXTURES/tiny.gguf" output_norm.weight pipe
wait
test -p pipe
wc -c < got
