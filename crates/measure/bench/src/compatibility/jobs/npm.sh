# program: npm, Node.js
# kind: builds
# needs: node npm node:express
# debian: nodejs npm
# npm: express
# checks: npm ls, the installed packages compared with those that were packed, a program that loads them

version() {
    npm --version
}

prepare() {
    # The packages of express, packed, so that installing needs no network.
    mkdir packed
    cd packed
    for package in "$TOOLS"/node/node_modules/*/package.json; do
        directory=$(dirname "$package")
        npm pack --silent --ignore-scripts "$directory" >/dev/null
    done
    cd ..
    {
        printf '{"name": "tried", "version": "1.0.0", "dependencies": {'
        separator=
        for file in packed/*.tgz; do
            name=$(tar xzOf "$file" package/package.json | node -p 'JSON.parse(require("fs").readFileSync(0)).name')
            printf '%s"%s": "file:%s/%s"' "$separator" "$name" "$PWD" "$file"
            separator=,
        done
        printf '}}\n'
    } >package.json
}

work() {
    cp "$INPUT/package.json" .
    npm install --silent --offline --no-audit --no-fund --cache "$PWD/cache" --ignore-scripts
    npm cache verify --silent --cache "$PWD/cache" >/dev/null
}

check() {
    npm ls --silent --cache "$PWD/cache" >/dev/null
    for file in "$INPUT"/packed/*.tgz; do
        mkdir unpacked
        tar xzf "$file" -C unpacked --strip-components 1
        name=$(node -p 'JSON.parse(require("fs").readFileSync("unpacked/package.json")).name')
        diff -r --exclude=node_modules unpacked "node_modules/$name"
        rm -r unpacked
    done
    NODE_PATH='' node -e 'require("./node_modules/express")()'
    rm -rf node_modules
    npm ci --silent --offline --no-audit --no-fund --cache "$PWD/cache" --ignore-scripts
    NODE_PATH='' node -e 'require("./node_modules/express")()'
}
