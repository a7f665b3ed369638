//! Changing text: numbers, lines, brackets, letters.

use super::dice::Dice;

/// Longest text made.
const MOST_BYTES: usize = 1 << 17;

/// Change a text somewhere. `words` are some that mean something in it.
pub(super) fn scribble(dice: &mut Dice, text: &mut Vec<u8>, words: &[&str]) {
    match dice.below(12) {
        0..=3 => change_number(dice, text),
        4 => change_line(dice, text),
        5 | 6 => insert(dice, text, words),
        7 => repeat(dice, text),
        8 => nest(dice, text),
        9 => {
            let end = dice.place(text.len() + 1);
            text.truncate(end);
        }
        10 if !text.is_empty() => {
            let place = dice.place(text.len());
            text[place] = dice.nasty() as u8;
        }
        _ => remove(dice, text),
    }
    text.truncate(MOST_BYTES);
}

/// A number as somebody might write it who means harm.
pub(super) fn number(dice: &mut Dice) -> String {
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
    match dice.below(3) {
        0 => WORDS[dice.place(WORDS.len())].to_owned(),
        1 => dice.nasty().to_string(),
        _ => format!("-{}", dice.nasty()),
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

fn change_number(dice: &mut Dice, text: &mut Vec<u8>) {
    let all = numbers(text);
    let Some(&(begin, end)) = dice.one_of(&all) else {
        return;
    };
    let old = std::str::from_utf8(&text[begin..end]).ok();
    let new = match old.and_then(|old| old.parse::<u64>().ok()) {
        Some(old) if dice.one_in(2) => dice.near(old).to_string(),
        _ => number(dice),
    };
    text.splice(begin..end, new.into_bytes());
}

/// Take away, double or exchange lines.
fn change_line(dice: &mut Dice, text: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (first, second) = (dice.place(lines.len()), dice.place(lines.len()));
    match dice.below(3) {
        0 => lines.swap(first, second),
        1 => {
            let line = lines[first].clone();
            lines.insert(second, line);
        }
        _ => drop(lines.remove(first)),
    }
    *text = lines.join(&b'\n');
}

fn insert(dice: &mut Dice, text: &mut Vec<u8>, words: &[&str]) {
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
    let word = match dice.below(3) {
        0 => ODD[dice.place(ODD.len())].to_owned(),
        1 => number(dice),
        _ => dice
            .one_of(words)
            .map_or_else(String::new, |word| (*word).to_owned()),
    };
    let place = dice.place(text.len() + 1);
    text.splice(place..place, word.into_bytes());
}

/// The same again and again.
fn repeat(dice: &mut Dice, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let begin = dice.place(text.len());
    let end = begin + 1 + dice.place((text.len() - begin).min(80));
    let end = end.min(text.len());
    let times = 1 << dice.below(12);
    let part = text[begin..end].repeat(times.min(MOST_BYTES / (end - begin)));
    text.splice(begin..begin, part);
}

/// Depth that a parser may follow with its stack.
fn nest(dice: &mut Dice, text: &mut Vec<u8>) {
    const OPENERS: [&str; 6] = ["[", "{", "[[", "{\"a\":", "{a=", "a."];
    let opener = OPENERS[dice.place(OPENERS.len())];
    let place = dice.place(text.len() + 1);
    let deep = opener.repeat(1 << dice.below(15));
    text.splice(place..place, deep.into_bytes());
}

fn remove(dice: &mut Dice, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let begin = dice.place(text.len());
    let end = (begin + 1 + dice.place(30)).min(text.len());
    text.drain(begin..end);
}
