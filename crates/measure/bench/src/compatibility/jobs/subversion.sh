# program: Subversion
# kind: tools
# needs: svn svnadmin
# debian: subversion linux-libc-dev
# checks: svnadmin verify, a checkout and a loaded dump compared with the tree
# survives: every commit that had returned; svnadmin verify

version() {
    svn --version --quiet
}

begin() {
    svnadmin create repository
    svn checkout -q "file://$PWD/repository" work
}

work() {
    begin
    cd work
    copy_tree tree
    svn add -q tree
    svn commit -qm one
    svn mv -q tree moved
    svn commit -qm two
    svn update -q
    echo line >>moved/types.h
    svn rm -q moved/fs.h
    svn commit -qm three
    cd ..
    svnadmin pack -q repository
    svnadmin dump -q repository >dump
}

check() {
    svnadmin verify -q repository
    svn export -q "file://$PWD/repository/moved" exported
    diff -r --no-dereference work/moved exported
    svnadmin create loaded
    svnadmin load -q loaded <dump
    svn export -q "file://$PWD/loaded/moved" again
    diff -r exported again
}

load() {
    begin
    cd work
    commit_next() {
        echo "$1" >"file$1"
        svn add -q "file$1"
        svn commit -qm "commit $1"
    }
    count_up commit_next
}

survived() {
    svnadmin recover repository >/dev/null
    svnadmin verify -q repository
    at_least "$(svnlook youngest repository)" "$(acknowledged)"
}
