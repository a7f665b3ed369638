# program: Vim
# kind: editors and shells
# needs: vim
# debian: vim
# checks: edited texts, backups, persistent undo
# survives: what was in the swap file, by vim -r

version() {
    vim --version | awk 'NR == 1 { print $5 }'
}

work() {
    seq 20000 >text
    vim -Nu NONE --cmd 'set undofile' -n -es -c 'set backup backupskip= backupext=.old' -c '%s/7/seven/g' -c wq text
    vim -Nu NONE --cmd 'set undofile' -n -es -c '$d' -c 'normal ggOfirst' -c wq text
    vim -Nu NONE -n -es -c 'set writebackup backupcopy=yes' -c 'g/8/d' -c 'w! other' -c 'qa!' text
}

check() {
    (echo first; seq 19999 | sed 's/7/seven/g') | cmp - text
    seq 20000 | cmp - text.old
    grep -v 8 text | cmp - other
    vim -Nu NONE --cmd 'set undofile' -n -es -c 'earlier 9f' -c 'w! undone' -c 'qa!' text
    seq 20000 | cmp - undone
}

load() {
    echo begin >text
    # It sleeps with the change in its swap file alone.
    cat >"$NOTES/steps.vim" <<'VIM'
set swapfile updatecount=1 updatetime=100
call append('$', ['not written'])
preserve
call writefile(['preserved'], $NOTES . '/acknowledged')
sleep 600
VIM
    vim -Nu NONE -es -S "$NOTES/steps.vim" text
}

survived() {
    [ "$(cat text)" = begin ] || fail "the text was written"
    vim -Nu NONE -es -c 'w! recovered' -c 'qa!' -r text || true
    grep -q 'not written' recovered || fail "vim -r did not recover the change"
}
