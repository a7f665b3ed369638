# program: QEMU images (qemu-img, qemu-io)
# kind: containers and virtual machines
# needs: qemu-img qemu-io
# debian: qemu-utils
# checks: qemu-img check and compare of raw and qcow2 images, snapshots, O_DIRECT and native AIO
# survives: every pattern whose write and flush had returned; qemu-img check after a repair

version() {
    qemu-img --version | awk 'NR == 1 { print $3 }'
}

patterns() {
    awk -v verb="$1" 'BEGIN { for (n = 1; n <= 200; n++) printf "%s -P %d %dk 16k\n", verb, n, n * 301 }'
}

work() {
    qemu-img create -q -f qcow2 one.qcow2 256M
    patterns write | qemu-io -f qcow2 one.qcow2 >/dev/null
    qemu-img snapshot -c first one.qcow2
    qemu-io -f qcow2 -c 'write -P 77 1M 2M' -c 'discard 8M 1M' one.qcow2 >/dev/null
    qemu-img snapshot -a first one.qcow2
    qemu-img convert -O raw -t none -T none -W one.qcow2 one.raw
    qemu-img convert -O qcow2 -c one.raw small.qcow2
    qemu-img create -q -f qcow2 -b one.qcow2 -F qcow2 over.qcow2
    qemu-io -f qcow2 -c 'write -P 5 100M 1M' over.qcow2 >/dev/null
    qemu-img commit -q over.qcow2
    qemu-img resize -q one.qcow2 300M
    qemu-img bench -q -f raw -t none -n -i native -w -c 500 -d 8 -s 4096 one.raw >/dev/null 2>&1 || qemu-img bench -f raw -w -c 500 one.raw >/dev/null
}

check() {
    qemu-img check -q one.qcow2
    qemu-img check -q small.qcow2
    patterns read | qemu-io -f qcow2 one.qcow2 >"$NOTES/log"
    ! grep -qi 'verification failed' "$NOTES/log" || fail "a pattern is wrong"
    ! qemu-io -f qcow2 -c 'read -P 5 100M 1M' one.qcow2 | grep -qi 'verification failed' || fail "the commit is wrong"
    [ "$(du -k one.raw | cut -f1)" -lt 100000 ] || fail "the raw image is not sparse"
}

load() {
    qemu-img create -q -f qcow2 one.qcow2 200G
    awk 'BEGIN { for (n = 1; ; n++) { printf "write -P %d %dk 8k\nflush\n", n % 250 + 1, n * 137; fflush() } }' |
        qemu-io -f qcow2 -t writeback one.qcow2 | grep --line-buffered wrote >"$NOTES/wrote" &
    await 20 grep -q wrote "$NOTES/wrote"
    acknowledge started
    wait
}

survived() {
    qemu-img check -q -r all one.qcow2 >/dev/null || true
    qemu-img check -q one.qcow2
    # The last write that was answered may not have been flushed.
    last=$(($(wc -l <"$NOTES/wrote") - 1))
    awk -v last="$last" 'BEGIN { for (n = 1; n <= last; n++) printf "read -P %d %dk 8k\n", n % 250 + 1, n * 137 }' |
        qemu-io -f qcow2 one.qcow2 >"$NOTES/log"
    ! grep -qi 'verification failed' "$NOTES/log" || fail "lost: $(grep -ci 'verification failed' "$NOTES/log") patterns"
}
