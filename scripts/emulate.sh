#!/bin/bash
# emulate.sh avx512 [COMMAND...] — run the tests that need no library on an emulated processor with AVX-512.
# Bochs emulates a whole machine with a Skylake X (AVX-512 F, BW, DQ, VL; no VNNI): the tests are linked
# statically and put into the memory disk of a Debian kernel, whose serial line brings back what they say. Slow: some
# ten million instructions a second. COMMANDs replace the list below (programs of the build in build-emulated/tests,
# "kernels/check_kernels --stride 50 --isa avx512"). Exit status 77 when packages are missing.
# EMULATE_TIMEOUT (seconds, 7200): when to give up. EMULATE_KERNEL: another kernel image.
set -euo pipefail
case "${1:-}" in avx512) shift ;; *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*; scripts/setup.sh full installs it"; exit 77; }
for program in bochs grub-mkrescue xorriso cpio mformat script cmake ninja; do
    command -v "$program" >/dev/null || skip "no $program"
done
kernel=${EMULATE_KERNEL:-$PWD/.deps/emulated/vmlinuz}
[ -f "$kernel" ] || skip "no kernel image at $kernel"
for rom in /usr/share/bochs/BIOS-bochs-latest /usr/share/vgabios/vgabios.bin; do
    [ -f "$rom" ] || skip "no $rom"
done

if [ $# -eq 0 ]; then
    # without the kernels that round to f16: Bochs 2.7 rounds some ties of VCVTPS2PH the wrong way
    set -- "kernels/check_kernels --isa avx512 --filter decode --without _f16_avx512 --stride 20" \
        "kernels/check_kernels --isa avx512 --filter encode --without _f16_avx512 --stride 61" "kernels/check_dots 29"
fi

build="build-emulated"
mkdir -p $build
{
    cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR=x86_64 -DCMAKE_EXE_LINKER_FLAGS=-static -DQN_WITH_CHECKERS=ON -DQN_WITH_TESTS=OFF \
        -DQN_WITH_COMMAND=OFF -DQN_WITH_BENCH=OFF -DQN_WITH_EXAMPLES=OFF
    for command in "$@"; do
        cmake --build $build -j 2 --target "$(basename "${command%% *}")"
    done
    "${CC:-cc}" -O2 -static -o $build/init tests/kernels/emulated_init.c
} >$build/log 2>&1 || { tail -n 40 $build/log; exit 1; }

# The machine: a disk that holds the kernel and a memory disk with the programs.
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
root=$machine/root iso=$machine/iso
mkdir -p "$root"/{dev,proc,tmp,goldens} "$iso/boot/grub"
cp $build/init "$root/init"
cp tests/goldens/*.* "$root/goldens/"
for command in "$@"; do
    program=${command%% *}
    mkdir -p "$root/$(dirname "$program")"
    cp "$build/tests/$program" "$root/$program"
    echo "/$command" >>"$root/commands"
done
strip "$root/init" "$root"/*/check_* "$root"/*/test_* 2>/dev/null || true
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$iso/boot/root.gz"
cp "$kernel" "$iso/boot/vmlinuz"
# clearcpuid: XSAVEC and XSAVES, of whose state Bochs 2.7 reports another size than Linux computes. The Ice Lake
# (with VNNI) has protection keys whose state it does not report at all.
cat >"$iso/boot/grub/grub.cfg" <<'CFG'
set timeout=0
menuentry quench {
    linux /boot/vmlinuz console=ttyS0 acpi=off nokaslr noxsaves nopku nopcid noinvpcid nosmap nosmep nogbpages lsm=capability apparmor=0 tsc=unstable clocksource=jiffies clearcpuid=321,323 mitigations=off lpj=1000000 panic=-1 rdinit=/init
    initrd /boot/root.gz
}
CFG
grub-mkrescue -o "$machine/disk.iso" "$iso" >"$machine/grub.log" 2>&1 || { cat "$machine/grub.log"; exit 1; }
cat >"$machine/bochsrc" <<RC
cpu: model=${EMULATE_CPU:-corei7_skylake_x}, count=1, ips=50000000, reset_on_triple_fault=0
memory: guest=1024, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$machine/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$machine/serial
display_library: term
log: $machine/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
RC
echo c >"$machine/rc" # "continue", where Bochs has its debugger built in

# Its display wants a terminal.
TERM=xterm setsid script -qec "bochs -q -f $machine/bochsrc -rc $machine/rc" /dev/null >"$machine/screen" 2>&1 </dev/null &
bochs=$!
trap 'kill -- -$bochs 2>/dev/null; rm -rf "$machine"' EXIT
deadline=$(($(date +%s) + ${EMULATE_TIMEOUT:-7200}))
shown=0
while kill -0 $bochs 2>/dev/null && [ "$(date +%s)" -lt $deadline ]; do
    sleep 2
    [ -f "$machine/serial" ] || continue
    if [ -n "${EMULATE_VERBOSE:-}" ]; then
        tail -c "+$((shown + 1))" "$machine/serial" | tr -d '\r'
        shown=$(stat -c %s "$machine/serial")
    fi
    grep -q '^EMULATED end' "$machine/serial" && break
done
tr -d '\r' <"$machine/serial" | sed -n '/^EMULATED/,$p' | tail -n 200
grep -q '^EMULATED end: [0-9]* run, 0 failed' "$machine/serial" && exit 0
if ! grep -q '^EMULATED end' "$machine/serial"; then
    echo "emulate: the machine did not come to the end; the last it said:"
    tail -n 20 "$machine/serial"
fi
exit 1
