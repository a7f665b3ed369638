# program: notmuch (Xapian), mutt
# kind: mail
# needs: notmuch mutt
# debian: notmuch mutt
# checks: counts and searches over a Maildir of tagged, moved and removed messages, and what mutt saved of sent ones
# survives: all messages can be searched after another notmuch new

version() {
    notmuch --version | awk '{ print $2 }'
}

deliver() {
    for n in $(seq "$1" "$2"); do
        printf 'From: a@b\nTo: c@d\nDate: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: number %s\nMessage-ID: <%s@b>\n\nword%s common\n' "$n" "$n" "$n" >"Maildir/tmp/$n.x"
        mv "Maildir/tmp/$n.x" Maildir/new
    done
}

settle() {
    export NOTMUCH_CONFIG="$PWD/settings"
    mkdir -p Maildir/new Maildir/cur Maildir/tmp
    printf '[database]\npath=%s/Maildir\n[user]\nname=a\nprimary_email=a@b\n[new]\ntags=new\n[maildir]\nsynchronize_flags=true\n' "$PWD" >settings
}

work() {
    settle
    deliver 1 500
    notmuch new --quiet
    notmuch tag --batch <<END
+odd -new -- subject:1 or subject:3
-new -- tag:new
END
    notmuch tag +flagged word7
    rm Maildir/*/10.x*
    notmuch new --quiet
    notmuch dump --output=dump
    notmuch compact --quiet
    # mutt sends by a program that keeps the message, and saves a copy into another Maildir.
    echo 'cat >/dev/null' >"$NOTES/sendmail"
    mkdir -p Sent/new Sent/cur Sent/tmp
    for n in 1 2 3; do
        echo "body $n" | mutt -n -F /dev/null -e "set copy=yes record=$PWD/Sent mbox_type=Maildir" \
            -e "set sendmail='sh $NOTES/sendmail'" -s "sent $n" -a "Maildir/cur/7.x"* -- c@d >/dev/null
    done
}

check() {
    export NOTMUCH_CONFIG="$PWD/settings"
    [ "$(notmuch count '*')" = 499 ] || fail "messages are missing"
    [ "$(notmuch count word7 and tag:flagged)" = 1 ] || fail "the tag is missing"
    [ "$(notmuch count tag:new)" = 0 ] || fail "a tag stayed"
    [ "$(grep -l '^Subject: sent' Sent/cur/* | wc -l)" = 3 ] || fail "mutt did not save copies"
    find Maildir -name '7.x:2,*F*' | grep -q . || fail "notmuch did not rename the flagged message"
    notmuch dump | grep -v '^#' | sort >"$NOTES/after"
    grep -v '^#' dump | sort | cmp - "$NOTES/after"
}

load() {
    settle
    first=1
    while :; do
        deliver $first $((first + 49))
        notmuch new --quiet
        notmuch tag +round -- '*'
        acknowledge $((first + 49))
        first=$((first + 50))
    done
}

survived() {
    export NOTMUCH_CONFIG="$PWD/settings"
    notmuch new --quiet
    [ "$(notmuch count '*')" = "$(find Maildir/new Maildir/cur -name '*.x*' | wc -l)" ] || fail "messages cannot be searched"
    at_least "$(notmuch count '*')" "$(sed -n "$(acknowledged)p" "$NOTES/acknowledged")"
}
