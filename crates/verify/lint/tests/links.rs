//! Links that lead nowhere are found.

use std::fs;

use egeria_lint::links::check;

#[test]
fn broken_links_paths_and_unlisted_pages_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("docs/SUMMARY.md", "[A](a.md)");
    write(
        "docs/a.md",
        "# One `two`: three\n[up](../README.md) [x](#one-two-three) [y](#four) [z](gone.md)\n```\n[q](code.md)\n```\n",
    );
    write("docs/b.md", "");
    write(
        "README.md",
        "[a](docs/a.md#one-two-three) `crates/gone` https://host/docs/no.md",
    );
    write(
        "src/x.rs",
        "// docs/a.md, docs/none.md. ../../docs/gone.md docs/*.md",
    );
    let wrong = check(root.path()).unwrap();
    let expected = [
        "README.md:1: `crates/gone` does not exist",
        "docs/a.md:2: link to ../README.md: it is not in the book; name the file instead",
        "docs/a.md:2: link to #four: no such heading",
        "docs/a.md:2: link to gone.md: no such file",
        "src/x.rs:1: `docs/none.md` does not exist",
        "src/x.rs:1: `docs/gone.md` does not exist",
        "docs/b.md: not in docs/SUMMARY.md",
    ];
    assert_eq!(wrong, expected);
}
