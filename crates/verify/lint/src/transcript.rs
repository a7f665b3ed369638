//! Commands that a page shows with their output, compared with what the commands print.
//!
//! A page marks what can be run anywhere by `$ ` in a block of `text`; the lines below are the output. A line `…` stands
//! for any lines. Figures, units, identifiers and the widths of tables may differ; words and their order may not.

use std::path::Path;

/// A command of a page, and what the page shows of its output.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The command, as it is typed.
    pub command: String,
    /// The lines below it; none where the page does not show the output.
    pub lines: Vec<String>,
}

/// Commands of all blocks of `text` of a page that begin with `$ `, in their order.
pub fn shown(page: &str) -> Vec<Shown> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let mut shown: Vec<Shown> = Vec::new();
    for block in blocks {
        let Some(block) = block.strip_prefix("text\n") else {
            continue;
        };
        let before = shown.len();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                shown.push(Shown {
                    command: command.to_owned(),
                    lines: Vec::new(),
                });
            } else if let Some(last) = shown[before..].last_mut() {
                last.lines.push(line.to_owned());
            }
        }
    }
    shown
}

/// What a page shows of an output and the output does not have, in words; `None` where it has all.
pub fn difference(lines: &[String], printed: &str) -> Option<String> {
    let printed = words(printed);
    let mut at = 0;
    for (number, part) in lines.split(|line| line.trim() == "…").enumerate() {
        let part = words(&part.join("\n"));
        if part.is_empty() {
            continue;
        }
        let rest = &printed[at.min(printed.len())..];
        // The first part begins where the output does.
        let begin = rest.windows(part.len()).position(|found| found == part);
        match begin {
            Some(begin) if number > 0 || begin == 0 => at += begin + part.len(),
            _ => return Some(first_difference(&part, rest)),
        }
    }
    let is_open = lines.last().is_some_and(|line| line.trim() == "…");
    let left = printed.get(at..).unwrap_or_default();
    let is_whole = is_open || lines.is_empty() || left.is_empty();
    (!is_whole).then(|| format!("the page does not show: {}", left.join(" ")))
}

/// Pairs of a figure on the page and in the output that stand before the same words, for example `calls direct`.
pub fn figures_before(words: &str, lines: &[String], printed: &str) -> Option<(f64, f64)> {
    let figure = |text: &str| -> Option<f64> {
        let before = text.split(words).next()?;
        let digits = before.trim_end().rsplit(' ').next()?;
        text.contains(words).then(|| digits.parse().ok())?
    };
    Some((figure(&lines.join("\n"))?, figure(printed)?))
}

/// What is wrong with the commands of a page, by a log in which each command is after `$ `, before its output. The page's
/// part of the log begins after a line `# NAME` with the name of its file, without `.md`. Lines of a guest's own begin with
/// `guest: `.
///
/// # Errors
/// A file that cannot be read.
pub fn check(page: &Path, log: &Path) -> Result<Vec<String>, String> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (text, log) = (read(page)?, read(log)?);
    let mut wrong = Vec::new();
    let shown = shown(&text);
    if shown.is_empty() {
        wrong.push(format!("{}: no command", page.display()));
    }
    let name = page.file_stem().unwrap_or_default().to_string_lossy();
    let Some((_, own)) = log.split_once(&format!("\n# {name}\n")) else {
        return Ok(vec![format!("{}: not in the log", page.display())]);
    };
    let mut rest = own;
    for Shown { command, lines } in &shown {
        let begin = format!("\n$ {command}\n");
        let after = match rest.strip_prefix(&begin[1..]) {
            Some(after) => after,
            None => match rest.split_once(&begin) {
                Some((_, after)) => after,
                None => {
                    wrong.push(format!("{}: `{command}` was not run", page.display()));
                    continue;
                }
            },
        };
        let ends = ["\n$ ", "\nguest: "].map(|next| after.find(next));
        let end = ends.into_iter().flatten().min().unwrap_or(after.len());
        rest = &after[end..];
        if let Some(difference) = difference(lines, &after[..end]) {
            wrong.push(format!("{}: `{command}`: {difference}", page.display()));
        }
    }
    Ok(wrong)
}

fn first_difference(part: &[String], printed: &[String]) -> String {
    let common = |at: usize| {
        let pairs = part.iter().zip(&printed[at..]);
        pairs.take_while(|(shown, found)| shown == found).count()
    };
    let nearest = (0..printed.len()).max_by_key(|&at| (common(at), std::cmp::Reverse(at)));
    let at = nearest.unwrap_or(0);
    let same = nearest.map_or(0, common);
    let some = |words: &[String]| words[..words.len().min(12)].join(" ");
    let shown = some(&part[same.saturating_sub(3)..]);
    let from = (at + same).saturating_sub(3).min(printed.len());
    format!("shown: {shown}; printed: {}", some(&printed[from..]))
}

/// Words of a text, with `#` for each figure, `U` for its unit, and without what depends on the widths of tables.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = if is_rule(word) {
            "─".to_owned()
        } else {
            plain(word)
        };
        // Bars of charts are as wide as what they show.
        if word != "─" || words.last().is_none_or(|last| last != "─") {
            words.push(word);
        }
    }
    words
}

/// Whether a word is a line of a table or a bar of a chart.
fn is_rule(word: &str) -> bool {
    let is_bar = word.len() >= 10 && word.chars().all(|letter| "RW.#".contains(letter));
    is_bar || word.chars().all(|letter| "─┬┴┼-".contains(letter)) && word.chars().count() >= 3
}

fn plain(word: &str) -> String {
    const UNITS: [&str; 22] = [
        "B", "KiB", "MiB", "GiB", "TiB", "B/s", "KB/s", "kB/s", "MB/s", "GB/s", "ns", "us", "µs",
        "ms", "s", "min", "minutes", "seconds", "windows", "window", "times", "%",
    ];
    let (inside, end) = match word.trim_end_matches([',', ';', ':', '.', ')']) {
        "" => (word, ""),
        inside => (inside, &word[inside.len()..]),
    };
    if UNITS.contains(&inside) {
        return format!("U{end}");
    }
    // An identifier, or the shortened one of a page.
    let letters = inside.trim_end_matches('…').trim_end_matches('-');
    let is_id = letters.len() >= 8
        && letters
            .chars()
            .all(|letter| letter.is_ascii_hexdigit() || letter == '-')
        && letters.contains(|letter: char| letter.is_ascii_digit());
    if is_id && letters.chars().filter(|letter| *letter == '-').count() != 1 {
        return format!("#{end}");
    }
    let mut plain = String::new();
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_digit() {
            while letters
                .next_if(|next| next.is_ascii_digit() || *next == '.')
                .is_some()
            {}
            plain.push('#');
        } else {
            plain.push(letter);
        }
    }
    // A directory whose name is made up.
    if plain.contains("/egeria-run-") {
        plain = "egeria-run-#".to_owned();
    }
    plain + end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_are_those_of_text_blocks() {
        let page = "a\n\n```sh\n$ no\n```\n\n```text\n$ one\nout\n$ two\n```\n\n```ini\n[x]\n```\n\n```text\nx\n```\n";
        let commands: Vec<Shown> = shown(page);
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0].lines, ["out"]);
        assert_eq!(commands[1].command, "two");
    }

    #[test]
    fn figures_and_widths_may_differ() {
        let page = lines(
            "volume efb17d4f-b5c9-40b0-acb4-888184eb9f54\n node   size\n──────\n  0   256 MiB   RRRRR.....",
        );
        let printed = "volume aaaa7d4f-b5c9-40b0-acb4-888184eb9f00\n node      size\n────────────\n 11   1.25 GiB   RRRRRRRRR......\n";
        assert_eq!(difference(&page, printed), None);
    }

    #[test]
    fn words_may_not_differ() {
        let page = lines("pools: 1, free\n…\nlast 3");
        assert_eq!(difference(&page, "pools: 2, free\nmore\nlast 4"), None);
        assert!(difference(&page, "pools: 2, used\nmore\nlast 4").is_some());
        assert!(difference(&page, "before\npools: 2, free\nlast 4").is_some());
        assert!(difference(&page, "pools: 2, free\nlast 4\nafter").is_some());
        assert!(difference(&page, "pools: 2, free\nfirst 4").is_some());
    }

    #[test]
    fn counts_are_found_by_the_words_after_them() {
        let page = lines("14 calls direct; 7802 mount requests");
        let printed = "1250 calls direct; 19 mount requests";
        let found = figures_before(" mount requests", &page, printed);
        assert_eq!(found, Some((7802.0, 19.0)));
    }

    #[test]
    fn a_page_is_compared_with_its_part_of_a_log() {
        let directory = tempfile::tempdir().unwrap();
        let [page, log] = ["volume.md", "log"].map(|name| directory.path().join(name));
        std::fs::write(&page, "\n```text\n$ one\nfree: 3\n$ two\n```\n").unwrap();
        let wrong = |text: &str| {
            std::fs::write(&log, text).unwrap();
            check(&page, &log).unwrap()
        };
        let right = "\n# other\n$ one\nused: 3\n# volume\n$ one\nfree: 4\n$ two\nx\nguest: done\n";
        assert_eq!(wrong(right), [""; 0]);
        assert_eq!(wrong(&right.replace("free", "used")).len(), 1);
        assert_eq!(wrong(&right.replace("$ two", "$ three")).len(), 1);
        assert!(wrong("$ one\nfree: 4\n")[0].contains("not in the log"));
    }
}
