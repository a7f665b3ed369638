//! How often documents and comments use words that readers of other languages stumble over: `who` for things, `beside` for
//! "next to" or "compared with", and their kind. [`FILE`] lists the words, and how many of 1,000 words may be among them.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::files;

/// The words and the limits, below the root of the source tree.
pub const FILE: &str = "crates/verify/lint/words.toml";

/// Files that are named where a limit is exceeded.
const SHOWN: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// Words and phrases, in small letters.
    words: Vec<String>,
    /// Most of 1,000 words in documents.
    documents: f64,
    /// Most of 1,000 words in comments of Rust code.
    comments: f64,
}

/// What was counted in some text.
#[derive(Clone, Copy, Default)]
struct Count {
    all: usize,
    found: usize,
}

impl Count {
    fn per_thousand(self) -> f64 {
        self.found as f64 * 1000.0 / self.all.max(1) as f64
    }
}

/// Lines that say where a limit is exceeded, and which files do most for it.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let rules: Rules = toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
    let (mut documents, mut comments) = (Vec::new(), Vec::new());
    for path in files::below(root).map_err(|error| error.to_string())? {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let (prose, counts): (fn(&str) -> String, _) = match extension.as_ref() {
            "md" => (prose_of_page, &mut documents),
            "rs" => (prose_of_code, &mut comments),
            _ => continue,
        };
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        counts.push((
            name.display().to_string(),
            count(&prose(&text), &rules.words),
        ));
    }
    let mut wrong = exceeded("documents", documents, rules.documents);
    wrong.extend(exceeded("comments", comments, rules.comments));
    Ok(wrong)
}

fn exceeded(of: &str, mut counts: Vec<(String, Count)>, limit: f64) -> Vec<String> {
    let all = counts
        .iter()
        .fold(Count::default(), |sum, (_, count)| Count {
            all: sum.all + count.all,
            found: sum.found + count.found,
        });
    if all.per_thousand() <= limit {
        return Vec::new();
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(count.found));
    let most = counts.iter().take(SHOWN);
    let most: Vec<String> = most
        .map(|(name, count)| format!("  {name}: {} of {} words", count.found, count.all))
        .collect();
    vec![format!(
        "{of}: {:.2} of 1,000 words are among those of {FILE}, more than {limit}; most in\n{}",
        all.per_thousand(),
        most.join("\n")
    )]
}

/// A page without its code and tables.
fn prose_of_page(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with('|') {
            prose += line;
            prose.push('\n');
        }
    }
    without_spans(&prose)
}

/// The comments of code.
fn prose_of_code(text: &str) -> String {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("//")?;
        Some(rest.trim_start_matches(['/', '!']))
    });
    prose_of_page(&comments.collect::<Vec<_>>().join("\n"))
}

/// Without what stands in backquotes, which is code.
fn without_spans(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn count(prose: &str, words: &[String]) -> Count {
    let text: Vec<String> = prose
        .split(|letter: char| !letter.is_alphanumeric() && letter != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let found = words.iter().map(|words| {
        let words: Vec<&str> = words.split(' ').collect();
        let places = text.windows(words.len());
        places.filter(|place| place.iter().eq(&words)).count()
    });
    Count {
        all: text.len(),
        found: found.sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(prose: &str) -> (usize, usize) {
        let words = ["who".to_owned(), "so many".to_owned()];
        let count = count(prose, &words);
        (count.all, count.found)
    }

    #[test]
    fn words_and_phrases_are_counted_as_wholes() {
        assert_eq!(counted("Who waits? So\nmany wait, whole."), (6, 2));
        assert_eq!(counted("so few, many"), (3, 0));
    }

    #[test]
    fn code_and_tables_are_no_prose() {
        let page = "who\n```text\nwho\n```\n| who |\n`who` is\n";
        assert_eq!(counted(&prose_of_page(page)), (2, 1));
        let code = "let who = 1; // who\n    /// who\n//! ```\n//! who\n//! ```\n";
        assert_eq!(counted(&prose_of_code(code)), (1, 1));
    }
}
