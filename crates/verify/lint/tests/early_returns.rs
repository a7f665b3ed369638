//! Tests that return early and note nothing are found; others are not.

use std::fs;

/// Lines that are found in tests with this body.
fn found(body: &str) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let tests = root.path().join("crates/x/tests");
    fs::create_dir_all(&tests).unwrap();
    let common = "pub fn can() -> bool { skip(\"why\"); false }\n\
        struct Made;\nimpl Made { fn new() -> Option<Made> { Self::with() } fn with() -> Option<Made> { can(); None } }\n";
    fs::write(tests.join("common.rs"), common).unwrap();
    fs::write(
        tests.join("test.rs"),
        format!("#[test]\nfn a_claim() {{\n{body}\n}}\n"),
    )
    .unwrap();
    egeria_lint::early_returns::check(root.path()).unwrap()
}

#[test]
fn a_return_without_a_note_is_found() {
    for body in [
        "if !has_fuse() { return; }",
        "let Some(a) = find() else { return };",
        "match find() { None => return, Some(_) => {} }",
        "if can() {} else { return; }",
        // A method of an iterator notes nothing.
        "if numbers.iter().skip(1).next().is_none() { return; }",
    ] {
        let lines = found(body);
        assert_eq!(lines.len(), 1, "{body}: {lines:?}");
        assert!(
            lines[0].starts_with("crates/x/tests/test.rs:3: "),
            "{lines:?}"
        );
    }
}

#[test]
fn a_return_that_is_noted_is_right() {
    for body in [
        "if !common::can() { return; }",
        "if one { skip(\"why\"); return; }",
        "let Some(made) = Made::new() else { return };",
        "match find() { Err(error) => { skip(error); return; } Ok(_) => {} }",
        "if std::env::var_os(PART).is_some() { part(); return; }",
        "let each = |n| { if n { return 1; } 2 };",
    ] {
        assert_eq!(found(body), [""; 0], "{body}");
    }
}
