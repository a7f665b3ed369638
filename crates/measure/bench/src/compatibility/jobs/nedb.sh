# program: NeDB (Node)
# kind: databases
# needs: node node:@seald-io/nedb
# debian: nodejs
# npm: @seald-io/nedb
# checks: all documents and an index after a restart and a compaction
# survives: every document that was inserted when the callback came; nothing of one is half there

run() {
    node - "$1" <<'NODE'
const fs = require('fs')
const Datastore = require('@seald-io/nedb')
const step = process.argv[2]
const notes = process.env.NOTES + '/acknowledged'
const text = n => ('document ' + n + ' ').repeat(1 + n % 50)
async function main() {
    const db = new Datastore({ filename: 'documents.db', corruptAlertThreshold: step === 'survived' ? 0.1 : 0 })
    await db.loadDatabaseAsync()
    if (step === 'work') {
        await db.ensureIndexAsync({ fieldName: 'n', unique: true })
        for (let part = 0; part < 40; part++)
            await db.insertAsync(Array.from({ length: 100 }, (_, i) => ({ n: part * 100 + i, text: text(part * 100 + i) })))
        await db.removeAsync({ n: { $lt: 400 } }, { multi: true })
        await db.compactDatafileAsync()
        for (let n = 4000; n < 4300; n++) await db.insertAsync({ n, text: text(n) })
    } else if (step === 'check') {
        for (let round = 0; round < 2; round++) {
            const all = await db.findAsync({}).sort({ n: 1 })
            if (all.length !== 3900 || all.some((one, i) => one.n !== 400 + i || one.text !== text(one.n)))
                throw new Error('wrong documents: ' + all.length)
            await db.compactDatafileAsync()
        }
    } else if (step === 'load') {
        const log = fs.openSync(notes, 'w')
        for (let n = 1; ; n++) {
            await db.insertAsync({ n, text: text(n) })
            fs.writeSync(log, n + '\n')
            if (n % 300 === 0) await db.compactDatafileAsync()
        }
    } else {
        const noted = fs.readFileSync(notes, 'utf8').split('\n').length - 1
        const all = await db.findAsync({ n: { $lte: noted } })
        if (all.length < noted || all.some(one => one.text !== text(one.n)))
            throw new Error(`lost: ${noted} acknowledged, ${all.length} found`)
    }
}
main().catch(error => { console.error(error.message); process.exit(1) })
NODE
}

work() {
    run work
}

check() {
    run check
}

load() {
    run load
}

survived() {
    run survived
}
