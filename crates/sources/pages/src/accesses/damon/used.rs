//! What the kernel saw used: regions, as its files show them.

use std::io;
use std::ops::Range;

use super::kernel::{Kernel, number, write};
use super::setup::SAMPLES;

/// Regions that are read of one process: no set-up of ours has more.
const MAX_REGIONS: usize = 1024;
/// Addresses of programs end below it, also with five levels of page tables.
const MAX_ADDRESS: u64 = 1 << 56;

/// Memory that was used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Used {
    pub(super) range: Range<usize>,
    /// In how many of the samples, 0 to 1.
    pub(super) share: f64,
}

/// Has the kernel show what was used since it last summed up.
///
/// # Errors
/// `EINVAL` if nothing is observed any more.
pub(super) fn update(kernel: &dyn Kernel) -> io::Result<()> {
    write(kernel, "0/state", "update_schemes_tried_regions")
}

/// What was used of a target, by address. What cannot be a region is left out.
///
/// # Errors
/// Those of the kernel, if there are no regions of it at all.
pub(super) fn of_target(kernel: &dyn Kernel, target: usize) -> io::Result<Vec<Used>> {
    let directory = format!("0/contexts/0/schemes/{target}/tried_regions");
    let regions = kernel.numbers(&directory, MAX_REGIONS)?.into_iter();
    let mut used: Vec<Used> = regions
        .filter_map(|region| {
            let read = |file| number(kernel, &format!("{directory}/{region}/{file}")).ok();
            region_of(read("start")?, read("end")?, read("nr_accesses")?)
        })
        .collect();
    used.sort_by_key(|used| used.range.start);
    let mut end = 0;
    used.retain(|used| {
        let is_behind = used.range.start >= end;
        if is_behind {
            end = used.range.end;
        }
        is_behind
    });
    Ok(used)
}

fn region_of(start: u64, end: u64, accesses: u64) -> Option<Used> {
    if start >= end || end > MAX_ADDRESS || accesses == 0 {
        return None;
    }
    Some(Used {
        range: usize::try_from(start).ok()?..usize::try_from(end).ok()?,
        share: accesses.min(SAMPLES) as f64 / SAMPLES as f64,
    })
}
