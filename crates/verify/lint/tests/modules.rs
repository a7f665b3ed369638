//! Cycles are found where there are, and nowhere else.

use std::fs;
use std::path::Path;

use egeria_lint::modules::{Exceptions, check, propose};
use tempfile::TempDir;

/// A tree with one crate, `x`, of these files below `src`.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("crates/layer/x")).unwrap();
    fs::write(root.path().join("crates/layer/x/Cargo.toml"), "").unwrap();
    for (name, text) in files {
        let path = root.path().join("crates/layer/x/src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn wrong(root: &Path, exceptions: &str) -> Vec<String> {
    check(root, &exceptions.parse().unwrap()).unwrap()
}

const RING: [(&str, &str); 4] = [
    ("lib.rs", "mod a; mod b; mod c;"),
    ("a.rs", "use crate::b::B;\npub struct A(B);"),
    ("b.rs", "pub struct B;\nfn f() { crate::c::c() }"),
    (
        "c.rs",
        "pub fn c() { let _ = stringify!(x); println!(\"{}\", super::a::A::new()); }",
    ),
];

#[test]
fn ring_is_reported_with_the_lines_that_make_it() {
    let root = tree(&RING);
    let wrong = wrong(root.path(), "");
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0].starts_with("x: 3 modules depend on each other: a, b, c"),
        "{wrong:?}"
    );
    for place in [
        "a.rs:1: crate::b::B",
        "b.rs:2: crate::c::c",
        "c.rs:1: super::a::A::new",
    ] {
        assert!(wrong[0].contains(place), "{place}: {wrong:?}");
    }
}

#[test]
fn exceptions_need_a_cycle_and_a_reason() {
    let root = tree(&RING);
    let excepted = "[[crate]]\nname = \"x\"\nreason = \"r\"\nedges = [\"c -> a\"]";
    assert_eq!(wrong(root.path(), excepted), Vec::<String>::new());
    let with = |edge: &str| excepted.replace("\"c -> a\"", &format!("\"c -> a\", \"{edge}\""));
    let unknown = wrong(root.path(), &with("a -> c"));
    assert!(unknown.len() == 1 && unknown[0].contains("`a -> c` is no import any more"));
    // Either of the two breaks the ring, so neither needs the other.
    let superfluous = wrong(root.path(), &with("a -> b"));
    assert!(superfluous.len() == 2 && superfluous[1].contains("`a -> b` is on no cycle"));
    assert!(
        "[[crate]]\nname = \"x\"\nreason = \"\"\nedges = []"
            .parse::<Exceptions>()
            .is_err()
    );
}

#[test]
fn proposed_exceptions_leave_no_cycle() {
    let root = tree(&RING);
    let proposed = propose(root.path())
        .unwrap()
        .replace("reason = \"\"", "reason = \"r\"");
    assert_eq!(wrong(root.path(), &proposed), Vec::<String>::new());
}

#[test]
fn parents_that_reexport_and_tests_make_no_cycle() {
    let root = tree(&[
        ("lib.rs", "mod p; pub use p::One;\nfn f() { One::new() }"),
        (
            "p/mod.rs",
            "mod one; mod two; pub(crate) use one::One; pub(crate) use two::Two;",
        ),
        (
            "p/one.rs",
            "use super::Two;\npub struct One(Two);\n#[cfg(test)] mod tests { use crate::p::two::Two; use super::*; }",
        ),
        (
            "p/two.rs",
            "pub struct Two;\n#[cfg(test)] mod tests { use crate::One; }",
        ),
    ]);
    assert_eq!(wrong(root.path(), ""), Vec::<String>::new());
}

#[test]
fn inline_modules_count_as_their_file() {
    let root = tree(&[
        ("lib.rs", "mod p;"),
        ("p/mod.rs", "mod one; mod two; use one::One; use two::Two;"),
        (
            "p/one.rs",
            "pub struct One;\nmod inner { use super::One; fn f() -> super::super::Two { } }",
        ),
        ("p/two.rs", "use super::*;\npub struct Two(One);"),
    ]);
    let wrong = wrong(root.path(), "");
    assert!(
        wrong.len() == 1
            && wrong[0].starts_with("x: 2 modules depend on each other: p::one, p::two"),
        "{wrong:?}"
    );
}
