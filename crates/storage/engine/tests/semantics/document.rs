//! docs/reference/semantics.md names tests that exist, and every test here is named by it.

use std::collections::BTreeSet;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../../docs/reference/semantics.md");

/// What stands in brackets, statement by statement: the number, and what holds it.
fn statements() -> Vec<(u32, Vec<String>)> {
    let begins = DOCUMENT.split("\n**").skip(1);
    begins
        .map(|text| {
            let (number, rest) = text.split_once("** ").expect("a number");
            let (_, held) = rest.rsplit_once('[').expect("tests in brackets");
            let (held, _) = held.split_once(']').expect("an end of the brackets");
            let tests = held.split(',').map(|test| test.trim().to_owned());
            (number.parse().expect("a number"), tests.collect())
        })
        .collect()
}

fn tests_in(text: &str) -> BTreeSet<String> {
    text.split("#[test]")
        .skip(1)
        .filter_map(|text| text.split_once("fn ")?.1.split_once("()"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Names between `cases!("…":` and `);`.
fn cases_in(text: &str) -> BTreeSet<String> {
    let (_, list) = text.split_once("cases!(").expect("a list of cases");
    let (list, _) = list.split_once(");").expect("its end");
    let (_, names) = list.split_once(':').expect("a family");
    names
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect()
}

fn numbers(names: &BTreeSet<String>) -> BTreeSet<String> {
    names
        .iter()
        .filter_map(|name| Some(name.split_once('_')?.0.to_owned()))
        .collect()
}

#[test]
fn the_document_and_the_tests_agree() {
    let here = [
        include_str!("../semantics.rs"),
        include_str!("limits.rs"),
        include_str!("space.rs"),
    ];
    let here = numbers(&here.into_iter().flat_map(tests_in).collect());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let crates = egeria_lint::crates(&root).expect("crates");
    let mut named = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (number, tests) in statements() {
        assert!(seen.insert(number), "statement {number} is there twice");
        for test in tests {
            match test.split_once("::") {
                None => {
                    assert_eq!(test, format!("s{number:02}"));
                    named.insert(test);
                }
                Some((file, name)) => {
                    let (name_of_crate, file) = file.split_once('/').expect("crate/file::test");
                    let (place, tests): (_, fn(&str) -> _) = match name_of_crate {
                        "conformance" => ("src/cases", cases_in),
                        _ => ("tests", tests_in),
                    };
                    let path = crates[name_of_crate].join(place).join(file);
                    let text = std::fs::read_to_string(path.with_extension("rs"));
                    let names: BTreeSet<String> = tests(&text.expect("a file of tests"));
                    assert!(names.contains(name), "{number}: no test {test}");
                }
            }
        }
    }
    assert_eq!(
        seen,
        (1..=seen.len() as u32).collect(),
        "no number is missing"
    );
    assert_eq!(named, here, "statements and tests");
}
