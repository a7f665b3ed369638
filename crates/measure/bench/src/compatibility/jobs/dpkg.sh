# program: dpkg
# kind: tools
# needs: dpkg dpkg-deb
# debian: dpkg linux-libc-dev
# user: root
# checks: dpkg --audit, dpkg --verify, the installed files compared with the package's
# survives: its database can be read; after dpkg --configure -a and another try, dpkg --audit finds nothing

version() {
    command dpkg --version | awk 'NR == 1 { print $7 }'
}

prepare() {
    for number in 1 2; do
        mkdir -p package/DEBIAN package/usr/share
        copy_tree package/usr/share/tried
        echo "$number" >package/usr/share/tried/number
        printf 'Package: tried\nVersion: %s\nArchitecture: all\nMaintainer: a <a@b>\nDescription: tried\n' "$number" >package/DEBIAN/control
        (cd package && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
        dpkg-deb --root-owner-group -b package "$number.deb" >/dev/null
        cp -a package/usr/share/tried "tree$number"
        rm -r package
    done
}

dpkg() {
    command dpkg --root="$PWD/root" --log="$NOTES/dpkg.log" "$@" >>"$NOTES/log" 2>&1
}

begin() {
    mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates
    touch root/var/lib/dpkg/status
}

work() {
    begin
    dpkg -i "$INPUT/1.deb"
    dpkg -i "$INPUT/2.deb"
    dpkg -r tried
    dpkg -i "$INPUT/2.deb"
}

check() {
    same "$INPUT/tree2" root/usr/share/tried
    [ -z "$(command dpkg --root="$PWD/root" --audit)" ] || fail "dpkg --audit finds something"
    [ -z "$(command dpkg --root="$PWD/root" --verify)" ] || fail "dpkg --verify finds something"
}

load() {
    begin
    dpkg -i "$INPUT/1.deb"
    acknowledge installed
    while :; do
        dpkg -i "$INPUT/2.deb"
        dpkg --force-downgrade -i "$INPUT/1.deb"
    done
}

survived() {
    # A package that was half unpacked has to be installed again: that is what it says then.
    dpkg --configure -a || :
    dpkg -i "$INPUT/2.deb"
    check
}
