//! Files of tests that would never run are found, and long names of tests.

use std::fs;

#[test]
fn a_file_that_no_program_has_is_found() {
    let root = tempfile::tempdir().unwrap();
    let of_crate = root.path().join("crates/layer/x");
    fs::create_dir_all(of_crate.join("tests")).unwrap();
    let write = |name: &str, text: &str| fs::write(of_crate.join(name), text).unwrap();
    write(
        "Cargo.toml",
        "[package]\nautotests = false\n[[test]]\nname = \"all\"\n[[test]]\nname = \"alone\"\n",
    );
    write("tests/all.rs", "mod one;\n");
    write("tests/one.rs", "");
    write("tests/alone.rs", "");
    assert_eq!(
        egeria_lint::test_files::check(root.path()).unwrap(),
        [""; 0]
    );
    write("tests/lost.rs", "");
    let wrong = egeria_lint::test_files::check(root.path()).unwrap();
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].contains("tests/lost.rs never runs"), "{wrong:?}");
    // Where cargo finds the files itself, none is lost.
    write("Cargo.toml", "[package]\n");
    assert_eq!(
        egeria_lint::test_files::check(root.path()).unwrap(),
        [""; 0]
    );
}

#[test]
fn tests_of_programs_that_are_not_tested_are_found() {
    let root = tempfile::tempdir().unwrap();
    let of_crate = root.path().join("crates/layer/x");
    fs::create_dir_all(of_crate.join("src/bin/tool")).unwrap();
    let sources = [
        "lib.rs",
        "part.rs",
        "main.rs",
        "bin/tool/main.rs",
        "bin/tool/part.rs",
    ];
    for source in sources {
        fs::write(of_crate.join("src").join(source), "#[test]\nfn t() {}\n").unwrap();
    }
    let found = |programs: &str| {
        let manifest = format!("[package]\n{programs}test = false\n");
        fs::write(of_crate.join("Cargo.toml"), manifest).unwrap();
        egeria_lint::test_files::check(root.path()).unwrap().len()
    };
    assert_eq!(found("[lib]\n"), sources.len());
    assert_eq!(found("[[bin]]\npath = \"src/main.rs\"\n"), 1);
    assert_eq!(found("[[bin]]\npath = \"src/bin/tool/main.rs\"\n"), 2);
    let library = "[lib]\ncrate-type = [\"cdylib\"]\n";
    assert_eq!(found(library), sources.len());
}

#[test]
fn a_long_name_of_a_test_is_found() {
    let root = tempfile::tempdir().unwrap();
    let of_crate = root.path().join("crates/layer/x");
    fs::create_dir_all(of_crate.join("src")).unwrap();
    fs::write(of_crate.join("Cargo.toml"), "[package]\n").unwrap();
    let check = |length: usize| {
        let (long, test) = ("n".repeat(99), "n".repeat(length));
        let text = format!("fn {long}() {{}}\n#[test]\n#[ignore]\nfn {test}() {{}}\n");
        fs::write(of_crate.join("src/lib.rs"), text).unwrap();
        egeria_lint::test_files::check(root.path()).unwrap().len()
    };
    assert_eq!((check(59), check(60)), (0, 1));
}
