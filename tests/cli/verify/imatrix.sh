# Both forms; one that cannot be used is an error when it is named as a matrix, a warning else.
cp "$FIXTURES"/*matrix* .
quench verify matrix.gguf matrix.dat
quench verify --imatrix matrix.gguf
for file in cut-matrix.dat "--imatrix half-matrix.gguf" half-matrix.gguf; do
    quench verify $file || echo "exit $?"
done
