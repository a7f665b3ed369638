# program: maildrop, mb2md (Maildir)
# kind: mail
# needs: maildrop mb2md
# debian: maildrop mb2md
# checks: each message is in its Maildir once, with its bytes, and nothing stays in tmp
# survives: every message for which maildrop had returned, whole; nothing else is in new
# note: Debian installs maildrop set-group-id; the kernel lets such programs into a FUSE mount only with --allow-other. The job runs a copy without that bit

version() {
    maildrop -v 2>&1 | awk 'NR == 1 { print $2 }'
}

message() {
    printf 'From: a@b\nTo: c@d\nSubject: number %s\nMessage-ID: <%s@b>\n\n' "$1" "$1"
    seq "$1" "$(($1 + 100))"
    echo "end of $1"
}

settle() {
    cp "$(command -v maildrop)" "$NOTES/maildrop"
    export HOME="$PWD"
    mkdir -p Maildir/new Maildir/cur Maildir/tmp Odd/new Odd/cur Odd/tmp
    cat >filter <<'FILTER'
if (/^Subject: number [0-9]*[13579]$/)
{
    to "Odd"
}
to "Maildir"
FILTER
    chmod 600 filter
}

deliver() {
    message "$1" | "$NOTES/maildrop" "$PWD/filter"
}

work() {
    settle
    for n in $(seq 150); do deliver "$n"; done
    for n in $(seq 150); do
        printf '\nFrom a@b Thu Jan  1 00:00:00 2026\n'
        message "$n"
    done | sed 1d >mbox
    mb2md -s "$PWD/mbox" -d "$PWD/Converted" >/dev/null
}

check() {
    for n in $(seq 150); do
        box=Maildir
        [ $((n % 2)) = 0 ] || box=Odd
        file=$(grep -l "^Message-ID: <$n@b>" $box/new/*)
        message "$n" | cmp - "$file"
        grep -rq "^end of $n\$" Converted || fail "mb2md lost $n"
    done
    [ -z "$(find Maildir/tmp Odd/tmp -type f)" ] || fail "something is left in tmp"
}

load() {
    settle
    count_up deliver
}

survived() {
    for n in $(seq "$(acknowledged)"); do
        box=Maildir
        [ $((n % 2)) = 0 ] || box=Odd
        message "$n" | cmp - "$(grep -l "^Message-ID: <$n@b>" $box/new/*)"
    done
    for file in Maildir/new/* Odd/new/*; do
        grep -q '^end of' "$file" || fail "$file is cut off"
    done
}
