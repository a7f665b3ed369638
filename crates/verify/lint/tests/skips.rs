//! Skips are counted by reason, and those that the gate does not know are named.

use std::fs;

use egeria_lint::skips::Skips;

const NOTED: &str = "egeria-mount data::a: no FUSE: /dev/fuse\nscripts guest: no QEMU\n\
    egeria-mount data::b: no FUSE: /dev/fuse\negeria-mount data::a: no FUSE: /dev/fuse\n";

fn noted(text: &str) -> (tempfile::TempDir, Result<Skips, String>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("noted");
    fs::write(&file, text).unwrap();
    (directory, Skips::read(&file))
}

#[test]
fn each_test_counts_once_below_its_reason() {
    let (directory, skips) = noted(NOTED);
    let expected = "skipped, no FUSE: /dev/fuse: egeria-mount data::a, egeria-mount data::b\n\
        skipped, no QEMU: scripts guest\nskipped: 3 tests, in whole or in part\n";
    assert_eq!(skips.unwrap().summary(), expected);
    let none = Skips::read(&directory.path().join("nothing")).unwrap();
    assert_eq!(none.summary(), "skipped: none\n");
    assert!(noted("no reason\n").1.is_err());
}

#[test]
fn a_skip_that_is_not_known_is_named() {
    let (directory, skips) = noted(NOTED);
    let (known, skips) = (directory.path().join("known"), skips.unwrap());
    let unknown = |text: &str| {
        fs::write(&known, text).unwrap();
        skips.unknown(&known)
    };
    let fuse = "[[skip]]\nwhy = \"no FUSE\"\nreason = \"shown elsewhere\"\n";
    let lines = unknown(fuse).unwrap();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("scripts guest was skipped"),
        "{lines:?}"
    );
    let of_one = format!("{fuse}test = \"egeria-mount data::b\"\n");
    assert_eq!(unknown(&of_one).unwrap().len(), 2);
    assert_eq!(unknown("").unwrap().len(), 3);
    assert!(unknown("[[skip]]\nwhy = \"no\"\n").is_err());
    assert!(unknown("[[skip]]\nwhy = \"no\"\nreason = \"\"\n").is_err());
}

#[test]
fn the_list_of_the_gate_can_be_read() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let (_directory, skips) = noted("");
    let known = std::path::Path::new(root).join(".ci/skips.toml");
    assert_eq!(skips.unwrap().unknown(&known).unwrap(), [""; 0]);
}
