# program: SQLite
# kind: databases
# needs: sqlite3
# debian: sqlite3
# checks: integrity_check, sums of a table, in the journal modes delete, truncate and wal
# survives: every row that was committed, in each journal mode; integrity_check

version() {
    sqlite3 --version | cut -d' ' -f1
}

create() {
    sqlite3 "$1.db" "pragma journal_mode=$1; create table t(n integer primary key, x text); create index i on t(x);" >/dev/null
}

work() {
    for mode in delete truncate wal; do
        create $mode
        sqlite3 $mode.db "begin; insert into t select value, printf('%0200d', value * 7919 % 10007)
            from generate_series(1, 20000); commit; update t set x = x || n where n % 3 = 0; delete from t where n % 5 = 0;"
        statements 'insert into t values(20000 + @, @);' | head -n 500 | sqlite3 $mode.db
        sqlite3 $mode.db 'vacuum; reindex'
    done
}

check() {
    for mode in delete truncate wal; do
        [ "$(sqlite3 $mode.db 'pragma integrity_check')" = ok ] || fail "integrity_check in mode $mode"
        [ "$(sqlite3 $mode.db 'select count(*), sum(n) from t')" = "16500|170125250" ] || fail "wrong sums in mode $mode"
    done
}

load() {
    for mode in delete truncate wal; do
        create $mode
        # Each number is printed after its transaction is committed.
        statements 'insert into t values(@, hex(randomblob(200))); select @;' | sqlite3 $mode.db >"$NOTES/$mode" &
    done
    for mode in delete truncate wal; do
        await 30 grep -q . "$NOTES/$mode"
    done
    acknowledge started
    wait
}

survived() {
    for mode in delete truncate wal; do
        [ "$(sqlite3 $mode.db 'pragma integrity_check')" = ok ] || fail "integrity_check in mode $mode"
        at_least "$(sqlite3 $mode.db 'select count(*) from t')" "$(wc -l <"$NOTES/$mode")"
    done
}
