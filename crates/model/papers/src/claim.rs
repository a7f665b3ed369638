//! What the papers claim: the table of statements, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::PapersError;

/// The table that ships with Egeria: id, source, place, claim, value, unit, tab-separated.
const TABLE: &str = include_str!("../data/claims.tsv");
const COLUMNS: usize = 6;

/// Where a claim was published.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Paper {
    /// Wang, Jiang, Xiong: *NUMA-Aware Thread Migration for High Performance NVMM File Systems*.
    #[serde(rename = "NThread")]
    NThread,
    /// The slides of that paper.
    #[serde(rename = "NThread slides")]
    NThreadSlides,
    /// Wang et al.: *PATS: Taming Bandwidth Contention between Persistent and Dynamic Memories*.
    #[serde(rename = "PATS")]
    Pats,
    /// The slides of OdinFS.
    #[serde(rename = "OdinFS")]
    OdinFs,
    /// Lepers, Quéma, Fedorova: *Thread and Memory Placement on NUMA Systems: Asymmetry Matters*.
    #[serde(rename = "AsymSched")]
    AsymSched,
}

impl Paper {
    /// All, in the table's order.
    pub const ALL: [Paper; 5] = [
        Paper::NThread,
        Paper::NThreadSlides,
        Paper::Pats,
        Paper::OdinFs,
        Paper::AsymSched,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Paper::NThread => "NThread",
            Paper::NThreadSlides => "NThread slides",
            Paper::Pats => "PATS",
            Paper::OdinFs => "OdinFS",
            Paper::AsymSched => "AsymSched",
        }
    }

    pub(crate) fn of_id(id: &str) -> Option<Paper> {
        Some(match id.chars().next()? {
            'N' => Paper::NThread,
            'S' => Paper::NThreadSlides,
            'P' => Paper::Pats,
            'O' => Paper::OdinFs,
            'A' => Paper::AsymSched,
            _ => return None,
        })
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One statement of a paper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its letter says which paper, its number which statement.
    pub id: String,
    /// Where it was published.
    pub paper: Paper,
    /// Section, figure or table.
    pub place: String,
    pub text: String,
    /// Its value as printed: a number, several, or a word.
    pub value: String,
    /// What the value is in.
    pub unit: String,
}

impl Claim {
    /// Paper and place.
    pub fn source(&self) -> String {
        format!("{} {}", self.paper, self.place)
    }

    /// The numbers of the value in order; a fraction counts as one.
    pub fn numbers(&self) -> Vec<f64> {
        let numbers = numbers(&self.value);
        match (self.unit.as_str(), self.value.as_str(), &numbers[..]) {
            ("fraction", _, [over, under]) | (_, "1/3", [over, under]) => vec![over / under],
            _ => numbers,
        }
    }
}

/// The claims of the four papers.
///
/// # Errors
/// When the table in the source was damaged.
pub fn claims() -> Result<Vec<Claim>, PapersError> {
    parse(TABLE)
}

/// Claims of a table with a heading line.
///
/// # Errors
/// A line without six columns, an unknown or a repeated id.
pub fn parse(table: &str) -> Result<Vec<Claim>, PapersError> {
    let mut claims: Vec<Claim> = Vec::new();
    for (index, line) in table.lines().enumerate().skip(1) {
        let fault = |problem: String| PapersError::Table {
            line: index + 1,
            problem,
        };
        let cells: Vec<&str> = line.split('\t').collect();
        let [id, _, place, text, value, unit] = cells[..] else {
            return Err(fault(format!("{} columns, not {COLUMNS}", cells.len())));
        };
        let paper = Paper::of_id(id).ok_or_else(|| fault(format!("no paper has the id {id:?}")))?;
        if claims.iter().any(|claim| claim.id == id) {
            return Err(fault(format!("a second {id}")));
        }
        let [id, place, text, value, unit] = [id, place, text, value, unit].map(str::to_owned);
        claims.push(Claim {
            id,
            paper,
            place,
            text,
            value,
            unit,
        });
    }
    Ok(claims)
}

/// All numbers of a text. `-` before a digit is a sign unless it stands between two numbers, `,` before
/// three digits groups thousands.
fn numbers(text: &str) -> Vec<f64> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && is_in_number(bytes, at) {
            at += 1;
        }
        let digits = text[start..at].replace(',', "");
        let is_negative = start > 0
            && bytes[start - 1] == b'-'
            && !(start > 1 && bytes[start - 2].is_ascii_digit());
        if let Ok(number) = digits.parse::<f64>() {
            found.push(if is_negative { -number } else { number });
        }
    }
    found
}

fn is_in_number(bytes: &[u8], at: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    match bytes[at] {
        b'.' => digit(at + 1),
        b',' => digit(at + 1) && digit(at + 2) && digit(at + 3),
        _ => digit(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_with_their_signs_and_groups() {
        assert_eq!(numbers("+218.8 / +96.7 / -4"), [218.8, 96.7, -4.0]);
        assert_eq!(numbers("1,300"), [1300.0]);
        assert_eq!(numbers("1.6, 19.1, 2.1"), [1.6, 19.1, 2.1]);
        assert_eq!(numbers("5-8"), [5.0, 8.0]);
        assert_eq!(numbers(">90"), [90.0]);
        assert_eq!(numbers("148 / 340; 133"), [148.0, 340.0, 133.0]);
        assert!(numbers("holds").is_empty());
    }

    #[test]
    fn tables_with_faults_are_refused_by_line() {
        let heading = "id\tseed\twhere\tclaim\tvalue\tunit\n";
        let row = "N01\t000\tx\ty\t1\t%\n";
        assert_eq!(parse(&format!("{heading}{row}")).unwrap().len(), 1);
        for (rows, words) in [
            (format!("{row}{row}"), "line 3: a second N01"),
            ("N01\tx\n".to_owned(), "line 2: 2 columns"),
            (row.replace('N', "Q"), "line 2: no paper"),
        ] {
            let error = parse(&format!("{heading}{rows}")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
