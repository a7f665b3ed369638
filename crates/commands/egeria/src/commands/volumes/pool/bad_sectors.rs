//! Sectors that a medium has lost, as the kernel lists them for a device.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome};

/// Sectors are counted so, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// Byte ranges of a pool that its device reports as lost, and those of a file in the same format.
pub fn read(pool: &Path, file: Option<&Path>) -> Outcome<Vec<Range<u64>>> {
    let mut bad = Vec::new();
    for list in of_device(pool).iter().map(PathBuf::as_path).chain(file) {
        let text = fs::read_to_string(list).map_err(|error| {
            Failure::new(format!(
                "cannot read {}: {error}; name a list of bad sectors",
                list.display()
            ))
        })?;
        bad.extend(parse(&text).map_err(|what| {
            Failure::new(format!(
                "{}: {what}; write a first sector and a count on each line, as in /sys/block/pmem0/badblocks",
                list.display()
            ))
        })?);
    }
    Ok(bad)
}

/// The list that the kernel keeps for a block device.
fn of_device(pool: &Path) -> Option<PathBuf> {
    let facts = fs::metadata(pool).ok()?;
    if !facts.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (libc::major(facts.rdev()), libc::minor(facts.rdev()));
    let list = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/badblocks"));
    list.exists().then_some(list)
}

/// Lines of a first sector and a number of sectors.
fn parse(text: &str) -> Result<Vec<Range<u64>>, String> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let numbers: Vec<&str> = line.split_whitespace().collect();
            let range = match numbers[..] {
                [first, count] => range_of(first, count),
                _ => None,
            };
            range.ok_or_else(|| format!("line {} is no range of sectors", at + 1))
        })
        .collect()
}

fn range_of(first: &str, count: &str) -> Option<Range<u64>> {
    let first: u64 = first.parse().ok()?;
    let count: u64 = count.parse().ok()?;
    let end = first.checked_add(count)?.checked_mul(SECTOR_BYTES)?;
    Some(first * SECTOR_BYTES..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_kernel_is_read() {
        assert_eq!(parse("8 1\n 16 24\n\n"), Ok(vec![4096..4608, 8192..20480]));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_range_is_named_by_its_line() {
        for text in [
            "x 1",
            "1",
            "1 2 3",
            "-1 2",
            "18446744073709551615 1",
            "36028797018963968 1",
        ] {
            let refused = parse(&format!("0 1\n{text}"));
            assert_eq!(refused, Err("line 2 is no range of sectors".to_owned()));
        }
    }
}
