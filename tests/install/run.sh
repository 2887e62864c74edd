#!/bin/sh
# run.sh BUILD SOURCE CC SANITIZE — install BUILD into a temporary folder, then build and run the
# consumer project with CMake's package file (shared and static) and with pkg-config.
set -eu
[ $# -eq 4 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 2; }
must() { test "$@" || { echo "failed: test $*" >&2; exit 1; }; }
build=$1 source=$2 cc=$3
[ -z "$4" ] || { echo "skipped: a sanitizer build is not installed" >&2; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
libdir=$(dirname "$(find "$folder/prefix" -name quench.pc)")/..
must -f "$libdir/libquench.a"
must -e "$libdir/libquench.so"
version=$("$folder/prefix/bin/quench" --version)

# Every header compiles alone, as C and as C++ where there is a compiler for it.
for header in "$folder"/prefix/include/quench/*.h; do
    echo "#include <quench/$(basename "$header")>" >"$folder/alone.c"
    echo 'int main(void) { return 0; }' >>"$folder/alone.c"
    "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$folder/prefix/include" -c "$folder/alone.c" -o "$folder/alone.o"
    if command -v c++ >/dev/null; then
        c++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$folder/prefix/include" -c "$folder/alone.c" -o "$folder/alone.o"
    fi
done

if ! { CC=$cc cmake -S "$source/consumer" -B "$folder/consumer" -DCMAKE_PREFIX_PATH="$folder/prefix" &&
    cmake --build "$folder/consumer"; } >"$folder/log" 2>&1; then
    cat "$folder/log"
    exit 1
fi
must "$("$folder/consumer/consumer")" = "$version"
must "$("$folder/consumer/consumer_static")" = "$version"

export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046 # the flags are words
"$cc" "$source/consumer/consumer.c" -o "$folder/with-pkg-config" $(pkg-config --cflags --libs quench)
must "$(LD_LIBRARY_PATH=$libdir "$folder/with-pkg-config")" = "$version"
must "$(pkg-config --modversion quench)" = "${version#quench }"
# The program in README.md compiles, and says what is wrong with a file that is not there.
awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source/../../README.md" >"$folder/list.c"
# shellcheck disable=SC2046
"$cc" -Wall -Wextra -Werror "$folder/list.c" -o "$folder/list" $(pkg-config --cflags --libs quench)
must "$(LD_LIBRARY_PATH=$libdir "$folder/list" nowhere.gguf 2>&1 || echo "exit $?")" = "nowhere.gguf: cannot open for reading: No such file or directory
exit 1"
for page in quench.1 quench-quantize.1 quench-recipe.5; do
    [ ! -d "$build/man" ] || must -f "$folder/prefix/share/man/man${page##*.}/$page"
done
echo "installed, and built with CMake (shared, static) and pkg-config: $version"
