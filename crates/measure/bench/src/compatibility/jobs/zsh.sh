# program: zsh
# kind: editors and shells
# needs: zsh
# debian: zsh linux-libc-dev
# checks: extended globs compared with find, lines that two shells append under a lock, a mapped file, compiled functions

version() {
    zsh --version | awk '{ print $2 }'
}

work() {
    copy_tree tree
    cat >steps <<'ZSH'
setopt extended_glob err_exit
print -rl tree/**/*.h(.N) | sort >globbed
print -rl tree/**/*(/N) | sort >directories
zmodload zsh/mapfile
mapfile[mapped]=$'one\ntwo\n'
zmodload zsh/system
: >locked
for n in {1..2}; do
    ( for i in {1..100}; do zsystem flock -f fd locked; print $n >>counted; zsystem flock -u $fd; done ) &
done
wait
print 'greet() { print hello }' >function
zcompile function
ZSH
    zsh -f steps
}

check() {
    find tree -name '*.h' -type f | sort | cmp - globbed
    find tree -mindepth 1 -type d | sort | cmp - directories
    [ "$(cat mapped)" = "one
two" ] || fail "wrong bytes by a mapping"
    [ "$(sort counted | uniq -c | tr -s ' ' | tr '\n' ',')" = " 100 1, 100 2," ] || fail "lines are missing"
    zsh -f -c 'source ./function; greet' | grep -q hello
}
