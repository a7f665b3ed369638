//! Cycles between the modules of a crate.
//!
//! 1. [`tree`]: read a crate's modules, with the names each defines and imports. Inline modules count as part of
//!    their file, and what is compiled for tests only is left out.
//! 2. [`resolve`]: follow every path in a module to the module that defines what it names, through re-exports. That one is
//!    the module it depends on. So a parent that re-exports its children depends on none of them, and a child that takes
//!    something of a sibling's from its parent depends on the sibling.
//! 3. [`graph`]: the strongly connected sets.
//!
//! Known gaps: methods called on a value, and what macros expand to.

mod exceptions;
mod graph;
mod resolve;
mod tree;

use std::path::Path;

pub use exceptions::Exceptions;

use crate::files;
use graph::Graph;
use tree::Crate;

/// Where the exceptions are, below the root of the source tree.
pub const EXCEPTIONS: &str = "crates/verify/lint/module-cycles.toml";

/// Lines that say what is wrong: cycles without an exception, exceptions without a cycle.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(root: &Path, exceptions: &Exceptions) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let crates = graphs(root)?;
    for (name, graph) in &crates {
        let excepted = exceptions.of(name);
        wrong.extend(
            graph
                .without(&excepted)
                .cycles()
                .iter()
                .map(|cycle| cycle.describe(name)),
        );
        for edge in &excepted {
            if let Some(why) = graph.is_unused(edge, &excepted) {
                wrong.push(format!(
                    "{EXCEPTIONS}: {name}: `{} -> {}` {why}; remove it",
                    edge.0, edge.1
                ));
            }
        }
    }
    let unknown = exceptions
        .crates()
        .filter(|name| !crates.iter().any(|(known, _)| known == *name));
    wrong.extend(unknown.map(|name| format!("{EXCEPTIONS}: there is no crate {name}; remove it")));
    Ok(wrong)
}

/// A smallest set of exceptions under which no cycle is left, as text for the file.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn propose(root: &Path) -> Result<String, String> {
    let mut text = String::new();
    for (name, graph) in graphs(root)? {
        let edges = graph.feedback_edges();
        if !edges.is_empty() {
            text += &format!("[[crate]]\nname = \"{name}\"\nreason = \"\"\nedges = [\n");
            edges
                .iter()
                .for_each(|(from, to)| text += &format!("    \"{from} -> {to}\",\n"));
            text += "]\n\n";
        }
    }
    Ok(text)
}

/// The graphs of all targets of all crates; a binary's name is `crate/binary`.
pub(crate) fn graphs(root: &Path) -> Result<Vec<(String, Graph)>, String> {
    let crates = files::crates(root).map_err(|error| format!("crates: {error}"))?;
    let mut graphs = Vec::new();
    for (name, path) in crates {
        for (target, file) in tree::targets(&path, &name) {
            let mut graph = Graph::default();
            resolve::dependencies(&Crate::read(&file, root)?, &mut graph);
            graphs.push((target, graph));
        }
    }
    Ok(graphs)
}
