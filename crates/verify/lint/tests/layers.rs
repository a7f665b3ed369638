//! What breaks the order of layers is found, and so are exceptions that nothing needs.

use std::fs;
use std::path::Path;

use egeria_lint::layers::{FILE, check};
use tempfile::TempDir;

/// A tree of two layers: `low` has the crate `base`, `high` the crate `user`.
fn tree(order: &str, base_needs: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(FILE, order);
    write("crates/low/base/Cargo.toml", base_needs);
    write("crates/low/base/src/lib.rs", "mod a; mod b;");
    write("crates/low/base/src/a.rs", "pub struct A;");
    write(
        "crates/low/base/src/b.rs",
        "use crate::a::A; pub struct B(A);",
    );
    write(
        "crates/high/user/Cargo.toml",
        "[dependencies]\negeria-base = {}\n",
    );
    root
}

fn wrong(root: &Path) -> Vec<String> {
    check(root).unwrap()
}

const LAYERS: &str = "layers = [\"low\", \"high\"]\n";

#[test]
fn dependencies_downwards_are_right() {
    let folders = "[[crate]]\nname = \"base\"\nfolders = [\"a\", \"b\"]\n";
    assert_eq!(
        wrong(tree(&format!("{LAYERS}{folders}"), "").path()),
        [""; 0]
    );
}

#[test]
fn a_crate_that_uses_a_higher_layer_is_found() {
    let upwards = "[dependencies]\negeria-user = {}\n";
    let found = wrong(tree(LAYERS, upwards).path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("base is below user, and uses it"));
    let excepted =
        format!("{LAYERS}[[exception]]\nfrom = \"base\"\nto = \"user\"\nreason = \"why\"\n");
    assert_eq!(wrong(tree(&excepted, upwards).path()), [""; 0]);
    let only_for_tests = "[dev-dependencies]\negeria-user = {}\n";
    assert_eq!(wrong(tree(LAYERS, only_for_tests).path()), [""; 0]);
}

#[test]
fn a_folder_that_uses_a_higher_one_is_found() {
    let folders = "[[crate]]\nname = \"base\"\nfolders = [\"b\", \"a\"]\n";
    let found = wrong(tree(&format!("{LAYERS}{folders}"), "").path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("b is below a, and uses it"));
}

#[test]
fn what_has_no_place_and_what_nothing_needs_is_found() {
    let order = "layers = [\"low\"]\n";
    assert!(wrong(tree(order, "").path())[0].contains("the layer high of user has no place"));
    let vain = format!("{LAYERS}[[exception]]\nfrom = \"base\"\nto = \"user\"\nreason = \"why\"\n");
    assert!(wrong(tree(&vain, "").path())[0].contains("does not use `user` any more"));
}

#[test]
fn crates_and_folders_that_do_not_exist_are_found() {
    let gone = format!("{LAYERS}[[crate]]\nname = \"gone\"\nfolders = []\n");
    assert!(wrong(tree(&gone, "").path())[0].contains("there is no crate gone"));
    let folders = "[[crate]]\nname = \"base\"\nfolders = [\"a\", \"b\", \"c\"]\n";
    let found = wrong(tree(&format!("{LAYERS}{folders}"), "").path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("base has no c"));
}
