#!/bin/sh
# elsewhere.sh SOURCE BUILD COMPILER FLAGS [EMULATOR MACHINE] — build the tests that need no library another way,
# and run them. With another compiler or other flags: all primitives of the vector headers, all goldens, all kernels
# against the referee. For another machine, linked statically and run under EMULATOR (with its options): those, the
# unit tests, products among them, the hostile files and the seeds of the fuzz targets.
# Skipped, with 77, when the compiler or the emulator is not installed.
set -eu
source=$1 build=$2 compiler=$3 flags=$4 emulator=${5:-} machine=${6:-}
for program in "$compiler" ${emulator%% *}; do
    command -v "$program" >/dev/null || { echo "skipped: no $program; scripts/setup.sh full installs it"; exit 77; }
done
targets="check_goldens check_kernels check_dots check_vec"
if [ -n "$machine" ]; then
    set -- -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$machine" -DCMAKE_EXE_LINKER_FLAGS=-static \
        "-DCMAKE_CROSSCOMPILING_EMULATOR=$(echo "$emulator" | tr ' ' ';')"
    targets=all
else
    set --
fi
cmake -S "$source" -B "$build" -G Ninja "-DCMAKE_C_COMPILER=$compiler" "-DCMAKE_C_FLAGS=$flags" \
    -DCMAKE_BUILD_TYPE=None -DQN_WITH_CHECKERS=ON -DQN_WITH_TESTS=OFF -DQN_WITH_COMMAND=OFF \
    -DQN_WITH_BENCH=OFF -DQN_WITH_EXAMPLES=OFF "$@" >/dev/null
# shellcheck disable=SC2086 # the list is split on purpose
cmake --build "$build" --target $targets -j 2 >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
if [ -n "$machine" ]; then
    exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j 2 -LE 'full|soak|slow'
fi
"$build/tests/kernels/check_vec"
"$build/tests/kernels/check_goldens" "$source/tests/goldens"
"$build/tests/kernels/check_kernels"
"$build/tests/kernels/check_dots"
