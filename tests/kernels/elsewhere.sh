#!/bin/sh
# elsewhere.sh SOURCE BUILD COMPILER FLAGS [EMULATOR [MACHINE]] — build the kernel checkers with another
# compiler, other flags or for another machine, and run them (all primitives of the vector headers; all
# goldens; all kernels against the referee). Skipped, with 77, when the compiler or the emulator is not installed.
set -eu
source=$1 build=$2 compiler=$3 flags=$4 emulator=${5:-} machine=${6:-}
for program in "$compiler" $emulator; do
    command -v "$program" >/dev/null || { echo "skipped: no $program; scripts/setup.sh full installs it"; exit 77; }
done
if [ -n "$machine" ]; then
    set -- -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$machine" -DCMAKE_EXE_LINKER_FLAGS=-static
else
    set --
fi
cmake -S "$source" -B "$build" -G Ninja "-DCMAKE_C_COMPILER=$compiler" "-DCMAKE_C_FLAGS=$flags" \
    -DCMAKE_BUILD_TYPE=None -DQN_WITH_CHECKERS=ON -DQN_WITH_TESTS=OFF -DQN_WITH_COMMAND=OFF \
    -DQN_WITH_BENCH=OFF -DQN_WITH_EXAMPLES=OFF "$@" >/dev/null
cmake --build "$build" --target check_goldens check_kernels check_dots check_vec -j 2 >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
$emulator "$build/tests/kernels/check_vec"
$emulator "$build/tests/kernels/check_goldens" "$source/tests/goldens"
$emulator "$build/tests/kernels/check_kernels" ${machine:+13}
$emulator "$build/tests/kernels/check_dots" ${machine:+7}
