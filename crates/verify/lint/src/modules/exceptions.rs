//! Dependencies that are known to close a cycle and allowed for now.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::graph::Edge;

/// What the file of exceptions says.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default, rename = "crate")]
    groups: Vec<Group>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    reason: String,
    /// Each as `from -> to`.
    edges: Vec<String>,
}

impl Exceptions {
    /// Reads the file; one that is missing has none.
    ///
    /// # Errors
    /// A file that is unreadable, or does not give a reason for each exception.
    pub fn read(path: &Path) -> Result<Exceptions, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Exceptions::default());
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        text.parse()
            .map_err(|error: String| format!("{}: {error}", path.display()))
    }

    pub(super) fn of(&self, name: &str) -> Vec<Edge> {
        let edges = self
            .groups
            .iter()
            .filter(|group| group.name == name)
            .flat_map(|group| &group.edges);
        edges.filter_map(|edge| split(edge)).collect()
    }

    pub(super) fn crates(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().map(|group| &group.name)
    }
}

impl std::str::FromStr for Exceptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Exceptions, String> {
        let exceptions: Exceptions = toml::from_str(text).map_err(|error| error.to_string())?;
        for group in &exceptions.groups {
            if group.reason.trim().is_empty() {
                return Err(format!(
                    "exceptions of {} have no reason; give one",
                    group.name
                ));
            }
            if let Some(edge) = group.edges.iter().find(|edge| split(edge).is_none()) {
                return Err(format!("`{edge}` is no exception; write `from -> to`"));
            }
        }
        Ok(exceptions)
    }
}

fn split(edge: &str) -> Option<Edge> {
    let (from, to) = edge.split_once(" -> ")?;
    Some((from.to_owned(), to.to_owned()))
}
