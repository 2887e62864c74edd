#!/bin/bash
# static.sh — build-musl/quench: the command as one static file that runs on any Linux of this machine's
# architecture. musl-gcc (package musl-tools) builds quench and the three libraries of the command, whose
# sources are those of Debian 12, pinned by digest: PCRE2, libsmartcols (util-linux), libcrypto (OpenSSL).
set -euo pipefail
case "${1:-}" in --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
here=$PWD/.deps/static
jobs=$(nproc)
pcre2=pcre2_10.42.orig.tar.gz
pcre2_sha256=c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f
util_linux=util-linux_2.38.1.orig.tar.xz
util_linux_sha256=60492a19b44e6cf9a3ddff68325b333b8b52b6c59ce3ebd6a0ecaa4c5117e84f
openssl=openssl_3.0.22.orig.tar.gz
openssl_sha256=67ebca7e50d17383028045486653492195b83db95f8558709701bb47b5c1ef81
# The headers of the kernel and of xxhash, after all of musl's.
fallback="-idirafter /usr/include -idirafter /usr/include/$(gcc -print-multiarch)"

die() { printf 'static: %s\n' "$*" >&2; exit 1; }
command -v musl-gcc >/dev/null || die "musl-gcc is not there; run: apt-get install musl-tools"
command -v apt-get >/dev/null || [ -d "$here/src" ] || die "put $pcre2, $util_linux and $openssl into $here/src"

are_whole() {
    (cd "$here/src" && printf '%s  %s\n' "$pcre2_sha256" "$pcre2" "$util_linux_sha256" "$util_linux" \
        "$openssl_sha256" "$openssl" | sha256sum --check --status 2>/dev/null)
}

# Debian's source packages, through apt with lists of its own; the digests decide, not apt's status:
# the packaging files beside the sources, which are not used, may be gone from a mirror.
fetch() {
    mkdir -p "$here/src" "$here/apt/lists/partial" "$here/apt/cache/archives/partial"
    are_whole && return 0
    local key=/usr/share/keyrings/debian-archive-keyring.gpg suite=http://deb.debian.org/debian
    printf 'deb-src [signed-by=%s] %s bookworm%s main\n' "$key" "$suite" "" "$key" "$suite" -updates \
        "$key" "$suite-security" -security >"$here/apt/sources.list"
    local options=(-o "Dir::Etc::sourcelist=$here/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache")
    (cd "$here/src" && apt-get "${options[@]}" update &&
        for name in pcre2 util-linux openssl; do apt-get "${options[@]}" source --download-only "$name" || true; done) \
        >"$here/fetch.log" 2>&1 || true
    are_whole || die "the sources could not be fetched, or have other digests; see $here/fetch.log"
}

# build NAME ARCHIVE: run build_NAME in its unpacked sources, once.
build() {
    local done=$here/lib/$1.built
    [ "$(cat "$done" 2>/dev/null)" = "$2" ] && return 0
    printf 'static: building %s\n' "$1" >&2
    rm -rf "$here/build/$1"
    mkdir -p "$here/build/$1" "$here/lib/pkgconfig" "$here/include"
    tar xf "$here/src/$2" -C "$here/build/$1" --strip-components=1
    (cd "$here/build/$1" && "build_$1") >"$here/$1.log" 2>&1 || { tail -n 30 "$here/$1.log" >&2; die "$1 failed"; }
    rm -rf "$here/build/$1"
    printf '%s' "$2" >"$done"
}

# write_pc FILE NAME VERSION LIBRARY [FOLDER-OF-HEADERS]
write_pc() {
    printf 'Name: %s\nDescription: %s, static, for musl\nVersion: %s\nLibs: -L%s %s\nCflags: -I%s\n' \
        "$2" "$2" "$3" "$here/lib" "$4" "$here/include${5:-}" >"$here/lib/pkgconfig/$1.pc"
}

build_pcre2() {
    ./configure CC=musl-gcc CFLAGS="-O2 $fallback" --prefix="$here" --disable-shared --enable-static \
        --disable-cpp --disable-pcre2grep-libz --disable-pcre2grep-libbz2
    make -j "$jobs" libpcre2-8.la
    cp .libs/libpcre2-8.a "$here/lib/"
    cp src/pcre2.h "$here/include/"
}

build_smartcols() {
    ./configure CC=musl-gcc CFLAGS="-O2 $fallback" --prefix="$here" --disable-all-programs \
        --enable-libsmartcols --disable-shared --enable-static --disable-nls --disable-asciidoc \
        --without-ncursesw --without-ncurses --without-python --without-systemd --disable-bash-completion
    make -j "$jobs" libsmartcols.la
    cp .libs/libsmartcols.a "$here/lib/"
    mkdir -p "$here/include/libsmartcols"
    cp libsmartcols/src/libsmartcols.h "$here/include/libsmartcols/"
}

# SHA-256 and what it cannot be built without.
build_crypto() {
    # shellcheck disable=SC2086 # flags are split on purpose
    ./Configure "linux-$(uname -m)" no-shared no-dso no-async no-engine no-tests no-sock no-ssl no-tls no-dtls \
        no-legacy no-module no-ui-console no-secure-memory no-aria no-bf no-blake2 no-camellia no-cast no-chacha \
        no-cmac no-cmp no-cms no-ct no-des no-dh no-dsa no-ec no-gost no-idea no-md4 no-mdc2 no-ocb no-ocsp \
        no-poly1305 no-rc2 no-rc4 no-rmd160 no-scrypt no-seed no-siphash no-siv no-sm2 no-sm3 no-sm4 no-srp \
        no-srtp no-ts no-whirlpool no-autoload-config no-autoerrinit no-err no-filenames \
        CC=musl-gcc $fallback -Os
    make -j "$jobs" build_generated
    make -j "$jobs" libcrypto.a
    cp libcrypto.a "$here/lib/"
    cp -r include/openssl "$here/include/"
}

fetch
build pcre2 "$pcre2"
build smartcols "$util_linux"
build crypto "$openssl"
# Every time: they hold where this folder is, and it may have been moved.
write_pc libpcre2-8 PCRE2 10.42 -lpcre2-8
write_pc smartcols smartcols 2.38.1 -lsmartcols /libsmartcols
write_pc libcrypto libcrypto 3.0.22 -lcrypto
PKG_CONFIG_LIBDIR=$here/lib/pkgconfig cmake --preset musl -DCMAKE_C_FLAGS="$fallback" >/dev/null
cmake --build --preset musl --target quench_command -j "$jobs"
strip -o build-musl/quench.stripped build-musl/quench && mv build-musl/quench.stripped build-musl/quench
if readelf -d build-musl/quench 2>/dev/null | grep -q NEEDED; then die "build-musl/quench needs shared libraries"; fi
printf 'static: build-musl/quench, %s bytes, needs nothing\n' "$(stat -c %s build-musl/quench)"
