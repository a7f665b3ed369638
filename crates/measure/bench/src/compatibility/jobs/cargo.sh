# program: Cargo, rustc
# kind: builds
# needs: cargo rustc cc
# debian: cargo rustc gcc libc6-dev
# checks: tests of the workspace pass, what the program computes; a second build does nothing

version() {
    cargo --version | awk '{ print $2 }'
}

prepare() {
    members=
    for n in $(seq 5); do
        mkdir -p "part$n/src"
        printf '[package]\nname = "part%s"\nversion = "0.1.0"\nedition = "2021"\n' "$n" >"part$n/Cargo.toml"
        printf 'pub fn add(x: u32) -> u32 { x + %s }\n#[test] fn adds() { assert_eq!(add(1), %s); }\n' "$n" "$((n + 1))" >"part$n/src/lib.rs"
        members="$members\"part$n\", "
    done
    mkdir -p program/src
    printf '[workspace]\nmembers = [%s"program"]\n' "$members" >Cargo.toml
    {
        printf '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        for n in $(seq 5); do echo "part$n = { path = \"../part$n\" }"; done
    } >program/Cargo.toml
    {
        echo 'fn main() { let mut x = 0;'
        for n in $(seq 5); do echo "x = part$n::add(x);"; done
        echo 'println!("{x}"); }'
    } >program/src/main.rs
}

work() {
    export CARGO_HOME="$PWD/home" TMPDIR="$PWD"
    cp -a "$INPUT" tree
    cargo build -q --offline -j2 --manifest-path tree/Cargo.toml
}

check() {
    export CARGO_HOME="$PWD/home" TMPDIR="$PWD"
    [ "$(tree/target/debug/program)" = 15 ] || fail "the program computes something else"
    before=$(stat -c %y tree/target/debug/program)
    cargo build -q --offline --manifest-path tree/Cargo.toml
    [ "$(stat -c %y tree/target/debug/program)" = "$before" ] || fail "cargo builds what is up to date"
    cargo test -q --offline --manifest-path tree/Cargo.toml -p part3 >"$NOTES/log" 2>&1 || fail "$(tail -n5 "$NOTES/log")"
}
