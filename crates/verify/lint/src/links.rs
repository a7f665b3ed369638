//! Links between documents, and paths in source that name documents.
//!
//! - In Markdown: relative links lead to a file, and to a heading of it if they name one; `crates/…` and `scripts/…` in
//!   code spans exist.
//! - Everywhere: `docs/…` exists.
//! - Every page below `docs` is in the book's table of contents.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::files;

/// What is looked through, beside files without an extension (scripts, Makefile).
const TEXTS: [&str; 6] = ["md", "rs", "toml", "c", "yml", "sh"];
const CONTENTS: &str = "docs/SUMMARY.md";

/// Lines that say which links and paths lead nowhere.
///
/// # Errors
/// A directory or file that cannot be read.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = HashMap::new();
    let mut texts = Vec::new();
    for path in files::below(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        let extension = name
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_checker = name.starts_with("crates/verify/lint");
        if is_checker || !(extension.is_empty() || TEXTS.contains(&extension.as_str())) {
            continue;
        }
        // What is no text has no links.
        let Ok(text) = String::from_utf8(fs::read(&path)?) else {
            continue;
        };
        if extension == "md" {
            pages.insert(name.clone(), headings(&text));
        }
        texts.push((name, text));
    }
    let checker = Checker { root, pages };
    let mut wrong: Vec<String> = texts
        .iter()
        .flat_map(|(name, text)| checker.wrong_in(name, text))
        .collect();
    wrong.extend(checker.pages_left_out(&texts));
    Ok(wrong)
}

struct Checker<'a> {
    root: &'a Path,
    /// Anchors of each Markdown file, by its path below the root.
    pages: HashMap<PathBuf, Vec<String>>,
}

impl Checker<'_> {
    fn wrong_in(&self, name: &Path, text: &str) -> Vec<String> {
        let is_page = name.extension().is_some_and(|extension| extension == "md");
        let mut wrong = Vec::new();
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= is_page && line.trim_start().starts_with("```");
            let links = if is_page && !is_code {
                links(line)
            } else {
                Vec::new()
            };
            let broken = links
                .into_iter()
                .filter_map(|link| self.broken_link(name, link));
            let absent = paths(line, is_page)
                .into_iter()
                .filter(|path| !self.root.join(path).exists());
            let absent = absent.map(|path| format!("`{path}` does not exist"));
            wrong.extend(
                broken
                    .chain(absent)
                    .map(|why| format!("{}:{number}: {why}", name.display())),
            );
        }
        wrong
    }

    /// Why a link leads nowhere, if it does.
    fn broken_link(&self, page: &Path, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() {
            page.to_owned()
        } else {
            joined(page.parent()?, file)
        };
        if !self.root.join(&target).exists() {
            return Some(format!("link to {link}: no such file"));
        }
        if page.starts_with("docs") && !target.starts_with("docs") {
            return Some(format!(
                "link to {link}: it is not in the book; name the file instead"
            ));
        }
        let anchors = self.pages.get(&target)?;
        let is_broken = !anchor.is_empty() && !anchors.iter().any(|known| known == anchor);
        is_broken.then(|| format!("link to {link}: no such heading"))
    }

    fn pages_left_out(&self, texts: &[(PathBuf, String)]) -> Vec<String> {
        let Some((_, contents)) = texts.iter().find(|(name, _)| name == Path::new(CONTENTS)) else {
            return vec![format!("{CONTENTS}: no such file")];
        };
        let listed: Vec<PathBuf> = contents
            .lines()
            .flat_map(links)
            .map(|link| joined(Path::new("docs"), link))
            .collect();
        let mut pages: Vec<&PathBuf> = self
            .pages
            .keys()
            .filter(|page| page.starts_with("docs"))
            .collect();
        pages.retain(|page| *page != Path::new(CONTENTS) && !listed.contains(page));
        pages.sort();
        pages
            .iter()
            .map(|page| format!("{}: not in {CONTENTS}", page.display()))
            .collect()
    }
}

/// Targets of inline links in a line of Markdown.
fn links(line: &str) -> Vec<&str> {
    let parts = line.split("](").skip(1);
    parts
        .filter_map(|part| Some(part.split_once(')')?.0))
        .collect()
}

/// Paths from the root of the tree that a line names: `docs/…` anywhere, others in the code spans of a page.
fn paths(line: &str, is_page: bool) -> Vec<&str> {
    let mut found = named(line, "docs/");
    if is_page {
        let spans = line.split('`').skip(1).step_by(2);
        found.extend(
            spans.flat_map(|span| [named(span, "crates/"), named(span, "scripts/")].concat()),
        );
    }
    found
}

/// Paths that begin with a directory of the root.
fn named<'a>(line: &'a str, directory: &str) -> Vec<&'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut found = Vec::new();
    for (at, _) in line.match_indices(directory) {
        let before = &line[..at];
        // Part of an address or of another path, unless that leads upwards.
        if before.ends_with(is_part) && !before.ends_with("../") {
            continue;
        }
        let rest = &line[at..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(['.', '/']);
        // Of a pattern, the directory it is in.
        let path = if rest[end..].starts_with(['*', '<', '{', '…']) {
            path.rsplit_once('/').map_or(path, |(parent, _)| parent)
        } else {
            path
        };
        found.push(path);
    }
    found
}

/// Anchors of a page's headings, as mdbook and GitHub make them.
fn headings(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        found.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

/// A relative path from a directory, without `.` and `..`.
fn joined(directory: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            part => joined.push(part),
        }
    }
    joined
}
