//! The kernel's list format for CPUs and nodes: `0-3,8,10-11`.

use std::fmt::Write;

use crate::types::ids::{CpuId, MAX_CPUS};

/// Reads a CPU list, ascending and without repetitions; an empty text is no CPU.
///
/// # Errors
/// One phrase that says what is wrong, for the caller to put a file or key in front of.
pub fn parse_cpu_list(text: &str) -> Result<Vec<CpuId>, String> {
    let numbers = parse_number_list(text, MAX_CPUS)?;
    Ok(numbers.into_iter().map(CpuId).collect())
}

/// Writes a CPU list in the kernel's format.
pub fn format_cpu_list(cpus: &[CpuId]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(&CpuId(first)) = rest.first() {
        let follows =
            |&(index, cpu): &(usize, &CpuId)| usize::from(cpu.0) == usize::from(first) + index;
        let length = rest.iter().enumerate().take_while(follows).count();
        let comma = if text.is_empty() { "" } else { "," };
        let last = rest[length - 1].0;
        let written = match length {
            1 => write!(text, "{comma}{first}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
        written.expect("writing to a String cannot fail");
        rest = &rest[length..];
    }
    text
}

/// Reads a list of numbers below `limit`; the limit also bounds what a hostile range may cost.
fn parse_number_list(text: &str, limit: usize) -> Result<Vec<u16>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut present = vec![false; limit];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first, limit)?, number(last, limit)?);
        if first > last {
            return Err(format!("the range {first}-{last} runs backwards"));
        }
        present[first..=last].fill(true);
    }
    let numbers = present.iter().enumerate().filter(|&(_, &there)| there);
    Ok(numbers
        .filter_map(|(number, _)| u16::try_from(number).ok())
        .collect())
}

fn number(text: &str, limit: usize) -> Result<usize, String> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown: String = digits.chars().take(20).collect();
        return Err(format!("{shown:?} is not a number"));
    }
    match digits.parse::<usize>() {
        Ok(number) if number < limit => Ok(number),
        _ => {
            let shown: String = digits.chars().take(20).collect();
            Err(format!(
                "{shown} is beyond the largest number, {}",
                limit - 1
            ))
        }
    }
}
