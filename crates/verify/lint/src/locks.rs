//! The lock file of the Python package, which is no member of the workspace: its builds use `--locked`, so it must know the
//! crates as they are, and it has the versions that the workspace is tested with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::files;

/// Of the workspace, and of what is built apart from it.
const WORKSPACE: &str = "Cargo.lock";
const APART: &str = "python/Cargo.lock";
/// What our crates are called, before the name of their directory below `crates`.
const PREFIX: &str = "egeria-";
/// The package that is built apart.
const ROOT: &str = "egeria-python";
const REMEDY: &str = "run `cargo metadata --manifest-path python/Cargo.toml > /dev/null`";

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    dependencies: Dependencies,
    #[serde(default, rename = "build-dependencies")]
    build: Dependencies,
    #[serde(default)]
    target: BTreeMap<String, TargetTable>,
}

#[derive(Deserialize)]
struct TargetTable {
    #[serde(default)]
    dependencies: Dependencies,
}

type Dependencies = BTreeMap<String, toml::Value>;

impl Manifest {
    /// Names that must be locked, and those that may be because features want them.
    fn dependencies(&self) -> (BTreeSet<&str>, BTreeSet<&str>) {
        let of_targets = self.target.values().flat_map(|table| &table.dependencies);
        let all = (self.dependencies.iter())
            .chain(&self.build)
            .chain(of_targets);
        let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
        for (name, value) in all {
            let of = |key: &str| value.get(key);
            let package = of("package").and_then(toml::Value::as_str);
            let is_optional = of("optional").and_then(toml::Value::as_bool) == Some(true);
            let names = if is_optional { &mut may } else { &mut must };
            names.insert(package.unwrap_or(name));
        }
        (must, may)
    }
}

/// Lines that say where the two locks, or a lock and a crate, differ.
///
/// # Errors
/// A file that cannot be read, in one line.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let workspace: Lock = read(&root.join(WORKSPACE))?;
    let apart: Lock = read(&root.join(APART))?;
    let mut tested: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &workspace.package {
        let versions = tested.entry(&package.name).or_default();
        versions.insert(&package.version);
    }
    let crates = files::crates(root).map_err(|error| format!("crates: {error}"))?;
    let mut wrong = Vec::new();
    for package in &apart.package {
        let (name, version) = (&package.name, &package.version);
        if let Some(versions) = tested.get(name.as_str())
            && !versions.contains(version.as_str())
        {
            let tested: Vec<&str> = versions.iter().copied().collect();
            wrong.push(format!(
                "{APART}: {name} {version} is not what {WORKSPACE} has ({}); `cargo update --manifest-path python/Cargo.toml -p {name} --precise VERSION`",
                tested.join(", ")
            ));
        }
        let directory = name.strip_prefix(PREFIX).filter(|_| name != ROOT);
        if let (Some(directory), None) = (directory, &package.source) {
            let of_crate = crates
                .get(directory)
                .ok_or_else(|| format!("{APART}: {name} is no crate"))?;
            let manifest: Manifest = read(&of_crate.join("Cargo.toml"))?;
            wrong.extend(differences(package, &manifest));
        }
    }
    Ok(wrong)
}

fn differences(package: &Package, manifest: &Manifest) -> Vec<String> {
    let name = &package.name;
    let locked = package.dependencies.iter();
    // A version follows where several are locked.
    let locked: BTreeSet<&str> = locked.filter_map(|text| text.split(' ').next()).collect();
    let (must, may) = manifest.dependencies();
    let missing = must.difference(&locked);
    let missing =
        missing.map(|one| format!("{APART}: {name} lacks its dependency {one}; {REMEDY}"));
    let unknown = locked
        .iter()
        .filter(|one| !must.contains(*one) && !may.contains(*one));
    let unknown = unknown
        .map(|one| format!("{APART}: {name} has {one}, which is no dependency of it; {REMEDY}"));
    missing.chain(unknown).collect()
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let problem = error.message().replace('\n', " ");
        format!("{}: {problem}", path.display())
    })
}
