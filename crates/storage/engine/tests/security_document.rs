//! docs/reference/security.md names tests that exist.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../../../docs/reference/security.md");

/// What stands in backquotes and is the name of a test: `crate/file::test`, or `crate/src/file::test`.
fn named() -> Vec<&'static str> {
    let quoted = DOCUMENT.split('`').skip(1).step_by(2);
    let is_test = |text: &&str| {
        let letters = text.chars();
        let is_plain = letters
            .into_iter()
            .all(|letter| letter.is_ascii_alphanumeric() || "/:_".contains(letter));
        is_plain && text.contains('/') && text.contains("::")
    };
    quoted.filter(is_test).collect()
}

/// The file that a name means.
fn file_of(place: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let crates = egeria_lint::crates(&root).expect("crates");
    let (name, file) = place.split_once('/').expect("crate/file::test");
    let directory = &crates[name];
    let tests = if file.starts_with("src/") {
        directory.clone()
    } else {
        directory.join("tests")
    };
    let alone = tests.join(file).with_extension("rs");
    if alone.exists() {
        alone
    } else {
        tests.join(file).join("mod.rs")
    }
}

/// Whether a text has a test of this name.
fn has_test(text: &str, name: &str) -> bool {
    let functions = text.split("#[test]").skip(1);
    let mut names = functions.filter_map(|text| text.split_once("fn ")?.1.split_once('('));
    names.any(|(found, _)| found == name)
}

#[test]
fn every_test_that_the_document_names_exists() {
    let named = named();
    assert!(named.len() >= 30, "only {} names were found", named.len());
    for test in named {
        // The sentence that explains such names has one of its own.
        if test == "engine/trust::x" {
            continue;
        }
        let (place, name) = test.split_once("::").expect("crate/file::test");
        let path = file_of(place);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{test}: {}: {error}", path.display()));
        assert!(has_test(&text, name), "there is no test {test}");
    }
}
