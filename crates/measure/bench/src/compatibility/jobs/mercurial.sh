# program: Mercurial
# kind: tools
# needs: hg
# debian: mercurial linux-libc-dev
# checks: hg verify, a clone compared with the tree
# survives: every commit that had returned; hg recover, hg verify

version() {
    hg --version -q | sed 's/.*version \([^)]*\).*/\1/'
}

hg() {
    HGUSER=a HGRCPATH=/dev/null command hg "$@"
}

work() {
    hg init work
    cd work
    copy_tree copied
    hg commit -qAm one
    hg mv -q copied/netfilter moved
    hg commit -qm two
    hg update -q 0
    echo line >>copied/types.h
    hg commit -qm side
    hg merge -q -r 1
    hg commit -qm merge
}

check() {
    hg -R work verify -q
    hg clone -q -U work again
    hg -R again update -q -r "$(hg -R work id -i)"
    diff -r --no-dereference -x .hg work again
}

commit_next() {
    echo "$1" >>counted
    echo "$1" >"file$1"
    hg commit -qAm "commit $1"
}

load() {
    hg init .
    count_up commit_next
}

survived() {
    hg recover -q >/dev/null 2>&1 || true
    hg verify -q
    at_least "$(($(hg log -r tip -T '{rev}') + 1))" "$(acknowledged)"
}
