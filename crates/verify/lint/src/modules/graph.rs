//! Which module depends on which, and the cycles of that.

use std::collections::{BTreeMap, BTreeSet};

/// From one module to another, by their names.
pub(crate) type Edge = (String, String);

/// Modules of a crate and what shows that one depends on another.
#[derive(Clone, Default, Debug)]
pub(crate) struct Graph {
    edges: BTreeMap<Edge, Vec<String>>,
}

/// Modules of which each depends on each, if by way of others.
pub(super) struct Cycle {
    modules: BTreeSet<String>,
    /// Each with the first place that makes it and the number of such places.
    edges: Vec<(Edge, String, usize)>,
}

impl Cycle {
    /// Lines for people.
    pub(super) fn describe(&self, name: &str) -> String {
        let modules: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        let mut text = format!(
            "{name}: {} modules depend on each other: {}",
            modules.len(),
            modules.join(", ")
        );
        for ((from, to), place, count) in &self.edges {
            text += &format!("\n  {from} -> {to}: {place}");
            if *count > 1 {
                text += &format!(" (and {} more)", count - 1);
            }
        }
        text
    }
}

impl Graph {
    pub(super) fn add(&mut self, from: &str, to: &str, place: String) {
        self.edges
            .entry((from.to_owned(), to.to_owned()))
            .or_default()
            .push(place);
    }

    /// Each with the first place that makes it.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (&Edge, &str)> {
        let edges = self.edges.iter();
        edges.map(|(edge, places)| (edge, places[0].as_str()))
    }

    /// The same without some edges.
    pub(super) fn without(&self, edges: &[Edge]) -> Graph {
        let mut rest = self.clone();
        edges.iter().for_each(|edge| drop(rest.edges.remove(edge)));
        rest
    }

    /// Why an exception is of no use, if it is not.
    pub(super) fn is_unused(&self, edge: &Edge, excepted: &[Edge]) -> Option<&'static str> {
        if !self.edges.contains_key(edge) {
            return Some("is no import any more");
        }
        let others: Vec<Edge> = excepted
            .iter()
            .filter(|other| *other != edge)
            .cloned()
            .collect();
        let rest = self.without(&others);
        let components = rest.components();
        (components[edge.0.as_str()] != components[edge.1.as_str()]).then_some("is on no cycle")
    }

    /// All strongly connected sets of more than one module.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let components = self.components();
        let mut sets: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for (module, component) in &components {
            let set = sets.entry(*component).or_default();
            set.insert((*module).to_owned());
        }
        sets.retain(|_, modules| modules.len() > 1);
        let mut sets: Vec<BTreeSet<String>> = sets.into_values().collect();
        sets.sort();
        sets.into_iter()
            .map(|modules| self.cycle(modules))
            .collect()
    }

    /// Few edges without which no cycle is left, and none of them for nothing: those made in the fewest places first.
    pub(super) fn feedback_edges(&self) -> Vec<Edge> {
        let mut taken: Vec<Edge> = Vec::new();
        loop {
            let rest = self.without(&taken);
            let components = rest.components();
            let on_cycles = rest
                .edges
                .iter()
                .filter(|((from, to), _)| components[from.as_str()] == components[to.as_str()]);
            match on_cycles.min_by_key(|(_, places)| places.len()) {
                Some((edge, _)) => taken.push(edge.clone()),
                None => break,
            }
        }
        // Some may have become superfluous by later ones.
        for edge in taken.clone() {
            if self.is_unused(&edge, &taken).is_some() {
                taken.retain(|other| *other != edge);
            }
        }
        taken.sort();
        taken
    }

    fn cycle(&self, modules: BTreeSet<String>) -> Cycle {
        let inside = self
            .edges
            .iter()
            .filter(|((from, to), _)| modules.contains(from) && modules.contains(to));
        let edges = inside
            .map(|(edge, places)| (edge.clone(), places[0].clone(), places.len()))
            .collect();
        Cycle { modules, edges }
    }

    /// The number of each module's strongly connected set (Kosaraju's algorithm).
    fn components(&self) -> BTreeMap<&str, usize> {
        let (mut forward, mut backward) = (Neighbours::new(), Neighbours::new());
        for (from, to) in self.edges.keys() {
            forward.entry(from).or_default().push(to);
            backward.entry(to).or_default().push(from);
        }
        let mut seen = BTreeSet::new();
        let mut order = Vec::new();
        for module in forward.keys().chain(backward.keys()) {
            finish(module, &forward, &mut seen, &mut order);
        }
        let mut components = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (number, module) in order.iter().rev().enumerate() {
            let mut set = Vec::new();
            finish(module, &backward, &mut seen, &mut set);
            components.extend(set.into_iter().map(|module| (module, number)));
        }
        components
    }
}

type Neighbours<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Adds all that is reached for the first time, each after what is reached from it.
fn finish<'a>(
    module: &'a str,
    next: &Neighbours<'a>,
    seen: &mut BTreeSet<&'a str>,
    order: &mut Vec<&'a str>,
) {
    if seen.insert(module) {
        for other in next.get(module).into_iter().flatten() {
            finish(other, next, seen, order);
        }
        order.push(module);
    }
}
