//! How much of the used memory is found used, by the order in which a way ranks memory. A planner moves the most used and
//! the least used memory, so the order is what matters, and no threshold is needed.

use std::ops::Range;

use egeria_pages::accesses::Region;

/// Bytes of used and of unused memory that count as equally used.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Rank {
    density: f64,
    used: u64,
    unused: u64,
}

/// The share of the used memory that is ranked as used, and of the unused as unused, if as much counts as used as is.
/// `used` are pieces of `all`; `None` if there is nothing of one kind.
pub(super) fn found(
    regions: &[Region],
    used: &[Range<usize>],
    all: &[Range<usize>],
) -> Option<(f64, f64)> {
    let (used_bytes, all_bytes) = (bytes(used), bytes(all));
    let unused_bytes = all_bytes
        .checked_sub(used_bytes)
        .filter(|bytes| *bytes > 0)?;
    let mut ranks: Vec<Rank> = regions
        .iter()
        .map(|region| {
            let (used, both) = (common(&region.range, used), common(&region.range, all));
            Rank {
                density: region.density(),
                used,
                unused: both.saturating_sub(used),
            }
        })
        .collect();
    let sum = |of: fn(&Rank) -> u64| ranks.iter().map(of).sum::<u64>();
    let rest = Rank {
        density: 0.0,
        used: used_bytes.saturating_sub(sum(|rank| rank.used)),
        unused: unused_bytes.saturating_sub(sum(|rank| rank.unused)),
    };
    ranks.push(rest);
    ranks.sort_by(|one, other| other.density.total_cmp(&one.density));
    let (mut left, mut taken) = (used_bytes as f64, 0.0);
    for equal in ranks.chunk_by(|one, other| one.density == other.density) {
        let used: u64 = equal.iter().map(|rank| rank.used).sum();
        let both: u64 = used + equal.iter().map(|rank| rank.unused).sum::<u64>();
        let goes = left.min(both as f64);
        taken += used as f64 * goes / (both as f64).max(1.0);
        left -= goes;
    }
    let used_bytes = Some(used_bytes as f64).filter(|bytes| *bytes > 0.0)?;
    let wrong = used_bytes - taken;
    Some((taken / used_bytes, 1.0 - wrong / unused_bytes as f64))
}

fn bytes(ranges: &[Range<usize>]) -> u64 {
    ranges.iter().map(|range| range.len() as u64).sum()
}

fn common(range: &Range<usize>, others: &[Range<usize>]) -> u64 {
    let common = others.iter().map(|other| {
        let (start, end) = (range.start.max(other.start), range.end.min(other.end));
        end.saturating_sub(start) as u64
    });
    common.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_machine::NodeId;
    use egeria_pages::NodeBytes;

    fn region(range: Range<usize>, accessed_bytes: u64) -> Region {
        let mut resident = NodeBytes::default();
        resident.add(NodeId(0), range.len() as u64);
        Region {
            range,
            resident,
            accessed_bytes,
            from: Vec::new(),
            is_fixed: false,
        }
    }

    #[test]
    fn a_right_order_finds_all_and_no_order_its_share() {
        let (used, all) = ([0..10, 40..50], [0..40, 40..80]);
        let of = |regions: &[Region]| found(regions, &used, &all).unwrap();
        let right = [region(40..50, 5), region(0..10, 10)];
        assert_eq!(of(&right), (1.0, 1.0));
        let alike = [region(0..80, 20)];
        let (hot, cold) = of(&alike);
        assert_eq!((hot, cold), (0.25, 0.75));
        assert_eq!(of(&[]), (0.25, 0.75), "nothing is known");
        let wrong = [region(10..30, 20)];
        let (hot, cold) = of(&wrong);
        assert!(hot == 0.0 && (cold - 2.0 / 3.0).abs() < 1e-9, "{cold}");
        let half = [region(0..20, 20)];
        assert_eq!(of(&half).0, 0.5);
    }

    #[test]
    fn without_used_or_unused_memory_there_is_no_share() {
        let all = [0..10, 10..20];
        assert_eq!(found(&[], &all, &all), None);
        assert_eq!(found(&[], &[], &all), None);
    }
}
