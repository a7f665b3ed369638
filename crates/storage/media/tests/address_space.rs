//! What a pool takes of the address space. Alone in its process: another test could be given addresses that this one
//! gives back.

use std::ops::Range;

use egeria_media::{BLOCK_BYTES, HUGE_PAGE_BYTES, Pool};

/// The mappings of this process with their protection, as /proc/self/maps has them.
fn mappings() -> Vec<(Range<usize>, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some((number(from)?..number(to)?, rest[..4].to_owned()))
    };
    maps.lines().map(|line| parse(line).unwrap()).collect()
}

fn protection(address: usize) -> Option<String> {
    let mut all = mappings().into_iter();
    all.find_map(|(range, protection)| range.contains(&address).then_some(protection))
}

#[test]
fn what_runs_past_a_pool_faults() {
    let before = mappings();
    let pool = Pool::anonymous(3 * BLOCK_BYTES);
    let is_pool = |(range, protection): &(Range<usize>, String)| {
        protection == "rw-s" && !before.iter().any(|(other, _)| other == range)
    };
    let (range, _) = mappings().into_iter().find(is_pool).unwrap();
    assert_eq!(range.len() as u64, HUGE_PAGE_BYTES, "rounded up");
    for guard in [range.start - 1, range.end] {
        assert_eq!(protection(guard).as_deref(), Some("---p"));
    }
    drop(pool);
    for address in [range.start - 1, range.start, range.end] {
        assert_eq!(protection(address), None, "all of it goes");
    }
}
