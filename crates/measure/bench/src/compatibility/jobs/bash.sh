# program: bash, GNU sed, gawk, grep, findutils
# kind: editors and shells
# needs: bash sed awk grep find
# debian: bash sed gawk grep findutils linux-libc-dev
# checks: the same output as on the original; redirections, here documents, process substitution, history, sed -i

version() {
    bash --version | awk 'NR == 1 { print $4 }' | cut -d'(' -f1
}

prepare() {
    copy_tree tree
}

work() {
    copy_tree tree
    cat >steps <<'BASH'
set -euo pipefail
shopt -s globstar nullglob
set -o noclobber
for n in {1..200}; do echo "line $n" >>log; done
! (echo x >log) 2>/dev/null
echo x >|clobbered
exec 7<>both
echo hello >&7
exec 7>&-
cat <<END >here
$(grep -rl define tree | sort)
END
diff <(find tree -type f | sort) <(printf '%s\n' tree/**/* | while read -r f; do [ -f "$f" ] && echo "$f" || true; done | sort)
HISTFILE=history
set -o history
history -s one
history -s two
history -a
sed -i.old 's/line/row/' log
find tree -name '*.h' -newer both -delete
awk '{ print > ("split" NR % 5) }' log
( umask 077; mktemp -d ./private.XXXXXX >made )
cat log | tee copy1 copy2 >/dev/null
printf '%s' abc >sparse && truncate -s 1M sparse
mapfile -t lines <log
echo "${#lines[@]}" >count
BASH
    bash steps
}

check() {
    grep -qx one history && grep -qx two history || fail "wrong history"
    [ "$(cat both)" = hello ] || fail "wrong bytes by a descriptor for both"
    [ "$(cat count)" = 200 ] || fail "lines are missing"
    [ "$(cat split0 split1 split2 split3 split4 | sort | uniq | wc -l)" = 200 ] || fail "awk lost lines"
    seq 200 | sed 's/^/line /' | cmp - log.old
    seq 200 | sed 's/^/row /' | cmp - copy2
    (cd "$INPUT" && grep -rl define tree | sort) | cmp - here
    [ "$(stat -c %a "$(cat made)")" = 700 ] || fail "wrong mode"
}
