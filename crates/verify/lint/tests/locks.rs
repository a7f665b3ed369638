//! A lock file that does not know the crates as they are is found.

use std::fs;
use std::path::Path;

use egeria_lint::locks::check;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const MANIFEST: &str = r#"
[dependencies]
egeria-media = { workspace = true }
libc = { workspace = true }
other = { package = "renamed", version = "1" }
wanted = { version = "1", optional = true }
[dev-dependencies]
tests-only = "1"
[build-dependencies]
builder = "1"
[target.'cfg(unix)'.dependencies]
rustix = "1"
"#;

fn package(name: &str, version: &str, rest: &str) -> String {
    format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{rest}\n")
}

fn from_registry(name: &str, version: &str) -> String {
    package(name, version, "source = \"registry+x\"")
}

/// A tree whose crate `fs` has these dependencies in the lock.
fn findings(locked: &str, libc_version: &str) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let own = package(
        "egeria-engine",
        "0.1.0",
        &format!("dependencies = [{locked}]"),
    );
    write(root.path(), "crates/storage/engine/Cargo.toml", MANIFEST);
    let tested = from_registry("libc", "0.2.1") + &from_registry("libc", "0.2.2");
    write(root.path(), "Cargo.lock", &(own.clone() + &tested));
    let apart = package(
        "egeria-python",
        "0.1.0",
        "dependencies = [\"egeria-engine\"]",
    ) + &own
        + &from_registry("libc", libc_version)
        + &from_registry("pyo3", "0.30.0");
    write(root.path(), "python/Cargo.lock", &apart);
    check(root.path()).unwrap()
}

const ALL: &str = r#""builder", "egeria-media", "libc 0.2.2", "renamed", "rustix""#;

#[test]
fn lock_that_knows_the_crates_is_right() {
    assert_eq!(findings(ALL, "0.2.2"), Vec::<String>::new());
    let with_feature = format!("{ALL}, \"wanted\"");
    assert_eq!(findings(&with_feature, "0.2.1"), Vec::<String>::new());
}

#[test]
fn missing_unknown_and_other_dependencies_are_reported() {
    let one = |locked: &str, version: &str| {
        let found = findings(locked, version);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    let without = ALL.replace(", \"rustix\"", "");
    assert!(one(&without, "0.2.2").contains("egeria-engine lacks its dependency rustix"));
    let with_more = format!("{ALL}, \"tests-only\"");
    assert!(one(&with_more, "0.2.2").contains("has tests-only, which is no dependency"));
    assert!(one(ALL, "0.2.3").contains("libc 0.2.3 is not what Cargo.lock has (0.2.1, 0.2.2)"));
}

#[test]
fn files_that_are_not_there_are_an_error_in_one_line() {
    let root = tempfile::tempdir().unwrap();
    let error = check(root.path()).unwrap_err();
    assert!(
        error.contains("Cargo.lock") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn this_repository_is_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    assert_eq!(check(&root).unwrap(), Vec::<String>::new());
}
