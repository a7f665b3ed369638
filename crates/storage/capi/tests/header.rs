//! `egeria.h` is what cbindgen generates from the source, and the map names what it declares.

use std::path::{Path, PathBuf};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = builder.with_src(here().join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    // Rust's heading means something to Rust's users only.
    let text = text.replace(" # Safety\n ", " What the caller sees to: ");
    text.replace("@ ", " *")
}

#[test]
fn header_is_what_cbindgen_generates() {
    let path = here().join("egeria.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, generated()).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == generated(),
        "egeria.h is old; run: UPDATE_HEADER=1 cargo test -p egeria-capi --test header"
    );
}

#[test]
fn map_exports_what_the_header_declares() {
    let header = std::fs::read_to_string(here().join("egeria.h")).unwrap();
    let map = std::fs::read_to_string(here().join("libegeria.map")).unwrap();
    let names = |text: &str, end: char| {
        let words = text.split(|letter: char| letter.is_whitespace() || letter == '*');
        let mut names: Vec<String> = words
            .filter(|word| word.starts_with("egeria_"))
            .filter_map(|word| Some(word[..word.find(end)?].to_owned()))
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let code: String = header
        .lines()
        .filter(|line| !line.starts_with(" *") && !line.starts_with("/*"))
        .map(|line| format!("{line}\n"))
        .collect();
    let declared = names(&code, '(');
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, names(&map, ';'));
}
