# program: Buildah (graph root on the volume, driver vfs)
# kind: containers and virtual machines
# needs: buildah /bin/busybox
# debian: buildah busybox-static
# user: root
# checks: an image that was built, committed, saved and loaded runs, with the files that it should have

version() {
    buildah --version | awk '{ print $3 }'
}

buildah() {
    command buildah --root "$PWD/graph" --runroot "$NOTES/run" --storage-driver "${driver:-vfs}" "$@"
}

work() {
    container=$(buildah from scratch)
    root=$(buildah mount "$container")
    mkdir -p "$root/bin" "$root/etc"
    cp /bin/busybox "$root/bin/"
    ln -s busybox "$root/bin/sh"
    echo tried >"$root/etc/name"
    chown 33:33 "$root/etc/name"
    buildah umount "$container" >/dev/null
    buildah run --isolation chroot "$container" /bin/busybox sh -c 'echo inside >/made; ln /made /linked'
    buildah config --entrypoint '["/bin/busybox"]' "$container"
    buildah commit -q "$container" tried >/dev/null
    buildah push -q tried "docker-archive:$PWD/image.tar:tried:latest"
    buildah rm "$container" >/dev/null
    buildah rmi tried >/dev/null
}

check() {
    image=$(buildah pull -q "docker-archive:$PWD/image.tar")
    container=$(buildah from "$image")
    root=$(buildah mount "$container")
    cmp /bin/busybox "$root/bin/busybox"
    [ "$(cat "$root/linked")" = inside ] || fail "the linked file is missing"
    [ "$(stat -c %u "$root/etc/name")" = 33 ] || fail "wrong owner"
    [ "$(buildah run --isolation chroot "$container" /bin/sh -c '/bin/busybox cat /etc/name')" = tried ] || fail "it does not run"
    buildah umount "$container" >/dev/null
}
