# program: git
# kind: tools
# needs: git
# debian: git linux-libc-dev
# checks: fsck --strict, a clone compared with the tree, after merges, renames, push and gc --aggressive
# survives: every commit that had returned (core.fsync=all); fsck

version() {
    git --version | awk '{ print $3 }'
}

settle() {
    git config --global user.email a@b
    git config --global user.name a
    git config --global init.defaultBranch main
    git config --global core.fsync all
}

work() {
    settle
    git init -q --bare origin.git
    git clone -q origin.git work 2>/dev/null
    cd work
    for round in 1 2; do
        copy_tree "copy$round"
        git add -A
        git commit -qm "round $round"
        git mv "copy$round" "moved$round"
        git commit -qm "moved $round"
    done
    git checkout -q -b side HEAD~2
    echo line >>moved1/types.h
    git commit -qam side
    git checkout -q -
    git merge -q --no-edit side
    git push -q origin HEAD
    git gc -q --aggressive
}

check() {
    ! git -C work fsck --strict 2>&1 | grep -v '^dangling' || fail "git fsck complains"
    [ -z "$(git -C work status --porcelain)" ] || fail "the tree differs"
    git clone -q origin.git again
    diff -r --no-dereference -x .git work again
}

commit_next() {
    echo "$1" >>counted
    mkdir -p "d$(($1 % 7))"
    echo "$1" >"d$(($1 % 7))/file$1"
    git add -A
    git commit -qm "commit $1"
}

load() {
    settle
    git init -q .
    count_up commit_next
}

survived() {
    rm -f .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock
    ! git fsck --strict 2>&1 | grep -v '^dangling' || fail "git fsck complains"
    at_least "$(git rev-list --count HEAD)" "$(acknowledged)"
    git reset -q --hard
    [ "$(tail -n1 counted)" = "$(git rev-list --count HEAD)" ] || fail "the tree is of another commit"
}
