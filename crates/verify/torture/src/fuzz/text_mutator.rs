//! Changing text: numbers, lines, brackets, letters.

use super::values::HostileValues;
use egeria_stats::rng::Rng;

/// Longest text made.
const MAX_BYTES: usize = 1 << 17;

/// Change a text somewhere. `words` are some that mean something in it.
pub(super) fn mutate(rng: &mut Rng, text: &mut Vec<u8>, words: &[&str]) {
    match rng.below(12) {
        0..=3 => change_number(rng, text),
        4 => change_line(rng, text),
        5 | 6 => insert(rng, text, words),
        7 => repeat(rng, text),
        8 => nest(rng, text),
        9 => {
            let end = rng.index(text.len() + 1);
            text.truncate(end);
        }
        10 if !text.is_empty() => {
            let place = rng.index(text.len());
            text[place] = rng.boundary_value() as u8;
        }
        _ => remove(rng, text),
    }
    text.truncate(MAX_BYTES);
}

/// A number as somebody might write it who means harm.
pub(super) fn number(rng: &mut Rng) -> String {
    const WORDS: [&str; 16] = [
        "-1",
        "0",
        "-0.0",
        "1e400",
        "-1e400",
        "1e-400",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "0x10",
        "1_000",
        "18446744073709551616",
        "99999999999999999999999999",
        "0.1",
        "1e308",
    ];
    match rng.below(3) {
        0 => WORDS[rng.index(WORDS.len())].to_owned(),
        1 => rng.boundary_value().to_string(),
        _ => format!("-{}", rng.boundary_value()),
    }
}

/// Where numbers are.
fn numbers(text: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, byte) in text.iter().enumerate() {
        let is_digit = byte.is_ascii_digit() || (*byte == b'.' && begin.is_some());
        match begin {
            None if is_digit => begin = Some(at),
            Some(first) if !is_digit => {
                found.push((first, at));
                begin = None;
            }
            _ => {}
        }
    }
    found.extend(begin.map(|first| (first, text.len())));
    found
}

fn change_number(rng: &mut Rng, text: &mut Vec<u8>) {
    let all = numbers(text);
    let Some(&(begin, end)) = rng.choose(&all) else {
        return;
    };
    let old = std::str::from_utf8(&text[begin..end]).ok();
    let new = match old.and_then(|old| old.parse::<u64>().ok()) {
        Some(old) if rng.one_in(2) => rng.near_value(old).to_string(),
        _ => number(rng),
    };
    text.splice(begin..end, new.into_bytes());
}

/// Take away, double or exchange lines.
fn change_line(rng: &mut Rng, text: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (first, second) = (rng.index(lines.len()), rng.index(lines.len()));
    match rng.below(3) {
        0 => lines.swap(first, second),
        1 => {
            let line = lines[first].clone();
            lines.insert(second, line);
        }
        _ => drop(lines.remove(first)),
    }
    *text = lines.join(&b'\n');
}

fn insert(rng: &mut Rng, text: &mut Vec<u8>, words: &[&str]) {
    const ODD: [&str; 14] = [
        "\"",
        "'",
        "\\",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "-",
        "\u{0}",
        "\u{feff}",
        "\u{1b}[31m",
        "🜚",
    ];
    let word = match rng.below(3) {
        0 => ODD[rng.index(ODD.len())].to_owned(),
        1 => number(rng),
        _ => rng
            .choose(words)
            .map_or_else(String::new, |word| (*word).to_owned()),
    };
    let place = rng.index(text.len() + 1);
    text.splice(place..place, word.into_bytes());
}

/// The same again and again.
fn repeat(rng: &mut Rng, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let begin = rng.index(text.len());
    let end = begin + 1 + rng.index((text.len() - begin).min(80));
    let end = end.min(text.len());
    let times = 1 << rng.below(12);
    let part = text[begin..end].repeat(times.min(MAX_BYTES / (end - begin)));
    text.splice(begin..begin, part);
}

/// Depth that a parser may follow with its stack.
fn nest(rng: &mut Rng, text: &mut Vec<u8>) {
    const OPENERS: [&str; 6] = ["[", "{", "[[", "{\"a\":", "{a=", "a."];
    let opener = OPENERS[rng.index(OPENERS.len())];
    let place = rng.index(text.len() + 1);
    let deep = opener.repeat(1 << rng.below(15));
    text.splice(place..place, deep.into_bytes());
}

fn remove(rng: &mut Rng, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let begin = rng.index(text.len());
    let end = (begin + 1 + rng.index(30)).min(text.len());
    text.drain(begin..end);
}
