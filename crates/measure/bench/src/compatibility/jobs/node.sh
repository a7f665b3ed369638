# program: Node.js (fs)
# kind: languages
# needs: node
# debian: nodejs
# checks: bytes by streams, by the thread pool, by copies and watchers

version() {
    node --version | tr -d v
}

work() {
    node - <<'NODE'
const fs = require('fs'), path = require('path'), crypto = require('crypto')
const need = (holds, what) => { if (!holds) throw new Error(what) }
const digest = file => new Promise((done, failed) => {
    const hash = crypto.createHash('sha256')
    fs.createReadStream(file).on('data', part => hash.update(part)).on('end', () => done(hash.digest('hex'))).on('error', failed)
})
async function main() {
    const seen = new Set()
    fs.mkdirSync('watched')
    const watcher = fs.watch('watched', (kind, name) => seen.add(name))
    await fs.promises.mkdir('a/b/c', { recursive: true })
    await Promise.all(Array.from({ length: 500 }, async (_, n) => {
        const file = `a/b/c/${n}`
        await fs.promises.writeFile(file + '.new', 'x'.repeat(n * 10))
        await fs.promises.rename(file + '.new', file)
        await fs.promises.appendFile(file, 'end')
    }))
    fs.writeFileSync('watched/one', 'x')
    const out = fs.createWriteStream('big')
    for (let n = 0; n < 4000; n++) if (!out.write(crypto.randomBytes(4096))) await new Promise(done => out.once('drain', done))
    await new Promise(done => out.end(done))
    await fs.promises.copyFile('big', 'copied')
    need(await digest('big') === await digest('copied'), 'the copy is the same')
    fs.cpSync('a', 'z', { recursive: true })
    need(fs.readdirSync('z/b/c').length === 500, 'all files were copied')
    const handle = await fs.promises.open('big', 'r+')
    await handle.writev([Buffer.from('one'), Buffer.from('two')], 100)
    const { buffer } = await handle.read(Buffer.alloc(6), 0, 6, 100)
    need(buffer.toString() === 'onetwo', 'writev')
    await handle.truncate(1000)
    await handle.utimes(1, 2)
    await handle.close()
    const facts = fs.statSync('big', { bigint: true })
    need(facts.size === 1000n && facts.mtimeNs === 2000000000n, 'attributes')
    fs.mkdtempSync('made-')
    fs.symlinkSync('big', 'link')
    need(fs.realpathSync('link') === path.resolve('big'), 'realpath')
    for (let n = 0; n < 100 && !seen.has('one'); n++) await new Promise(done => setTimeout(done, 20))
    need(seen.has('one'), 'the watcher saw the file')
    watcher.close()
    fs.rmSync('a', { recursive: true })
}
main().catch(error => { console.error(error); process.exit(1) })
NODE
}

check() {
    [ ! -e a ] || fail "rm left something"
    for n in 0 1 250 499; do
        { head -c $((n * 10)) /dev/zero | tr '\0' x; printf end; } | cmp - z/b/c/$n
    done
    [ "$(wc -c <copied)" = 16384000 ] || fail "wrong size"
}
