//! The order of layers, as data in [`FILE`]: of the crates, and of the folders within a crate.
//!
//! - The directory that a crate is in, below `crates`, is its layer. A crate depends on crates of its own layer and of
//!   layers before it. What only tests use (`dev-dependencies`) is not looked at.
//! - The modules of a crate's first level are its folders. A module depends on folders that come before its own.
//!
//! What breaks the order needs an exception with a reason, and an exception that nothing needs is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::{files, modules};

/// Where the order is, below the root of the source tree.
pub const FILE: &str = "crates/verify/lint/layers.toml";

/// What our crates are called, before the name of their directory.
const PREFIX: &str = "egeria-";

/// What the file says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    /// Directories below `crates`, from the bottom.
    layers: Vec<String>,
    #[serde(default, rename = "crate")]
    crates: Vec<Folders>,
    /// Of crates.
    #[serde(default, rename = "exception")]
    exceptions: Vec<Exception>,
}

/// The folders of a crate, from the bottom.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Folders {
    name: String,
    folders: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    from: String,
    to: String,
    reason: String,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
}

/// Lines that say what is wrong: what breaks the order, what the order does not know, and what it knows in vain.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let order: Order = toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
    let mut wrong = wrong_crates(root, &order)?;
    wrong.extend(missing_folders(root, &order)?);
    for (name, graph) in modules::graphs(root)? {
        if let Some(folders) = order.crates.iter().find(|folders| folders.name == name) {
            let edges = graph.edges().map(|((from, to), place)| {
                let folder = |module: &str| module.split("::").next().unwrap_or("").to_owned();
                (folder(from), folder(to), place.to_owned())
            });
            let floors = floors(&folders.folders);
            wrong.extend(broken(&name, &floors, edges, &folders.exceptions));
        }
    }
    Ok(wrong)
}

fn wrong_crates(root: &Path, order: &Order) -> Result<Vec<String>, String> {
    let crates = files::crates(root).map_err(|error| format!("crates: {error}"))?;
    let layers = floors(&order.layers);
    let mut floors = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, path) in &crates {
        let layer = path.parent().and_then(|layer| layer.file_name());
        let layer = layer.unwrap_or_default().to_string_lossy();
        match layers.get(layer.as_ref()) {
            Some(floor) => drop(floors.insert(name.clone(), *floor)),
            None => wrong.push(format!("{FILE}: the layer {layer} of {name} has no place")),
        }
    }
    let mut edges = Vec::new();
    for (name, path) in &crates {
        let path = path.join("Cargo.toml");
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let manifest: Manifest =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let own = manifest.dependencies.keys();
        let own = own.filter_map(|dependency| dependency.strip_prefix(PREFIX));
        edges.extend(own.map(|to| (name.clone(), to.to_owned(), format!("{}", path.display()))));
    }
    wrong.extend(broken(
        "crates",
        &floors,
        edges.into_iter(),
        &order.exceptions,
    ));
    Ok(wrong)
}

/// Crates and folders that the order names and that do not exist: what they were renamed to would not be checked.
fn missing_folders(root: &Path, order: &Order) -> Result<Vec<String>, String> {
    let crates = files::crates(root).map_err(|error| format!("crates: {error}"))?;
    let mut wrong = Vec::new();
    for Folders { name, folders, .. } in &order.crates {
        let Some(path) = crates.get(name) else {
            wrong.push(format!("{FILE}: there is no crate {name}; remove it"));
            continue;
        };
        let source = path.join("src");
        let is_there = |folder: &&String| {
            *folder == "crate"
                || source.join(folder).is_dir()
                || source.join(format!("{folder}.rs")).is_file()
        };
        let missing = folders.iter().filter(|folder| !is_there(folder));
        wrong.extend(missing.map(|folder| format!("{FILE}: {name} has no {folder}; remove it")));
    }
    Ok(wrong)
}

/// The place of each in the order.
fn floors(order: &[String]) -> BTreeMap<String, usize> {
    let places = order.iter().cloned().enumerate();
    places.map(|(floor, name)| (name, floor)).collect()
}

/// Dependencies that lead upwards without an exception, each once; exceptions that are not needed, or have no reason.
fn broken(
    of: &str,
    floors: &BTreeMap<String, usize>,
    edges: impl Iterator<Item = (String, String, String)>,
    exceptions: &[Exception],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, to, place) in edges.filter(|(from, to, _)| from != to) {
        let (Some(from_floor), Some(to_floor)) = (floors.get(&from), floors.get(&to)) else {
            let unknown = if floors.contains_key(&from) {
                &to
            } else {
                &from
            };
            if seen.insert((unknown.clone(), String::new())) {
                wrong.push(format!("{FILE}: {of}: {unknown} has no place"));
            }
            continue;
        };
        if from_floor < to_floor && seen.insert((from.clone(), to.clone())) {
            let is_excepted = exceptions
                .iter()
                .any(|one| one.from == from && one.to == to);
            if !is_excepted {
                wrong.push(format!("{of}: {from} is below {to}, and uses it: {place}"));
            }
        }
    }
    for one in exceptions {
        let edge = (one.from.clone(), one.to.clone());
        if !seen.contains(&edge) {
            let (from, to) = edge;
            wrong.push(format!(
                "{FILE}: {of}: `{from}` does not use `{to}` any more; remove it"
            ));
        } else if one.reason.trim().is_empty() {
            wrong.push(format!(
                "{FILE}: {of}: `{} -> {}` has no reason",
                one.from, one.to
            ));
        }
    }
    wrong
}
