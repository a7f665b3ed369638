//! Names of tests that are too long to read as a claim, and tests that no test program has. A crate with `autotests = false`
//! names its test programs, and `tests/all.rs` the modules of the one that has most of them: a file that is in neither would
//! never run. Nor would a test in the source of a program with `test = false`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::files;

#[derive(Deserialize)]
struct Manifest {
    package: Package,
    lib: Option<Program>,
    #[serde(default)]
    bin: Vec<Program>,
    #[serde(default)]
    test: Vec<Target>,
}

/// A library or a command.
#[derive(Deserialize)]
struct Program {
    path: Option<PathBuf>,
    test: Option<bool>,
}

#[derive(Deserialize)]
struct Package {
    autotests: Option<bool>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Longest name of a test.
const MAX_NAME: usize = 59;

/// A line for each such name and file.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for path in files::crates(root)
        .map_err(|error| format!("crates: {error}"))?
        .values()
    {
        let manifest: Manifest = toml::from_str(&read(&path.join("Cargo.toml"))?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if manifest.package.autotests == Some(false) {
            let all = read(&path.join("tests/all.rs"))?;
            let is_known = |name: &str| {
                let line = format!("mod {name};");
                manifest.test.iter().any(|target| target.name == name)
                    || all.lines().any(|known| known == line)
            };
            wrong.extend(unknown(path, is_known)?);
        }
        let untested = untested(path, &manifest);
        let sources = files::below(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for source in sources {
            if source
                .extension()
                .is_some_and(|extension| extension == "rs")
            {
                let text = read(&source)?;
                if text.contains("#[test]") && untested.iter().any(|root| source.starts_with(root))
                {
                    let file = source.display();
                    wrong.push(format!(
                        "{file} has tests that never run; remove `test = false` of its program"
                    ));
                }
                let found = long_names(&text);
                wrong.extend(found.into_iter().map(|name| {
                    let (file, length) = (source.display(), name.len());
                    format!("{file}: test {name} has {length} letters; shorten it to {MAX_NAME}")
                }));
            }
        }
    }
    Ok(wrong)
}

/// Names of tests: those of the functions behind `#[test]`.
fn long_names(text: &str) -> Vec<String> {
    let tests = text.split("#[test]\n").skip(1);
    let name = |test: &str| {
        let (_, behind) = test.split_once("fn ")?;
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        Some(behind[..end].to_owned())
    };
    let names = tests.filter_map(name);
    names.filter(|name| name.len() > MAX_NAME).collect()
}

/// Files and folders of source that cargo builds no test program from.
fn untested(path: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let programs = manifest.lib.iter().chain(&manifest.bin);
    let untested = programs.filter(|program| program.test == Some(false));
    let source = |program: &Program| {
        let root = path.join(program.path.as_deref().unwrap_or("src/lib.rs".as_ref()));
        let has_folder = root.ends_with("lib.rs")
            || root.ends_with("main.rs") && !root.with_file_name("lib.rs").exists();
        if has_folder {
            root.with_file_name("")
        } else {
            root
        }
    };
    untested.map(source).collect()
}

fn unknown(path: &Path, is_known: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let tests = path.join("tests");
    let entries = fs::read_dir(&tests).map_err(|error| format!("{}: {error}", tests.display()))?;
    let mut wrong = Vec::new();
    for file in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_code = file.extension().is_some_and(|extension| extension == "rs");
        if is_code && !is_known(&name) {
            let file = file.display();
            wrong.push(format!(
                "{file} never runs; add `mod {name};` to tests/all.rs"
            ));
        }
    }
    wrong.sort();
    Ok(wrong)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
