# program: Kyoto Cabinet
# kind: databases
# needs: kchashmgr kctreemgr kchashtest kctreetest
# debian: kyotocabinet-utils
# checks: kchashmgr check, kctreemgr check, its own test of order and of transactions

work() {
    kchashtest order -th 2 -rnd hash.kch 3000 >"$NOTES/log"
    kctreetest order -rnd tree.kct 3000 >>"$NOTES/log"
    kctreetest tran -th 2 -it 2 tran.kct 1000 >>"$NOTES/log"
    awk 'BEGIN { for (n = 1; n <= 20000; n++) printf "key%08d\tvalue %d\n", n, n * 7919 }' >pairs
    kchashmgr import pairs.kch pairs
    kctreemgr import pairs.kct pairs
}

check() {
    for file in hash.kch pairs.kch; do kchashmgr check $file >/dev/null; done
    for file in tree.kct tran.kct pairs.kct; do kctreemgr check $file >/dev/null; done
    kchashmgr list -pv pairs.kch | sort | cmp - pairs
    kctreemgr list -pv pairs.kct | cmp - pairs
}
