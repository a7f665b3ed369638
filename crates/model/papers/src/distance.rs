//! Why the model is far from some numbers, as far as the reason is known.

/// The table that ships with Egeria: ids, why, tab-separated.
const TABLE: &str = include_str!("../data/distances.tsv");

/// Numbers farther than this from the paper's are explained.
pub const FAR: f64 = 0.2;

/// The lines of the table: ids, and what is said of them.
pub fn distances() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let lines = TABLE.lines().skip(1);
    let lines = lines.filter_map(|line| line.split_once('\t'));
    lines.map(|(ids, why)| (ids.split(' ').collect(), why))
}

/// What is said of a claim.
pub fn distance(id: &str) -> Option<&'static str> {
    let mut lines = distances();
    lines.find(|(ids, _)| ids.contains(&id)).map(|(_, why)| why)
}
