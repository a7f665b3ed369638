//! No bytes of a ring lead to a panic, to more than was there, or to a hang.

use std::time::Duration;

use egeria_perf::record::decode;
use egeria_perf::{AccessEvents, Kind, RecordedRings, Served};
use proptest::prelude::*;

/// What page faults of a shell wrote, as `take_raw` gave it on Linux 6.18; a record of lost samples was put in front.
const PAGE_FAULTS: &[u8] = include_bytes!("data/page_faults.ring");

/// Records whose head may lie about their size.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(9_u32), Just(2), Just(13), Just(5), any::<u32>()];
    let size = prop_oneof![
        4 => Just(None),
        1 => any::<u16>().prop_map(Some),
        1 => (0_u16..80).prop_map(Some),
    ];
    let body = proptest::collection::vec(any::<u8>(), 0..80);
    let record = (kind, any::<u16>(), size, body).prop_map(|(kind, flags, size, body)| {
        let size = size.unwrap_or(8 + body.len() as u16);
        let head = [
            &kind.to_ne_bytes()[..],
            &flags.to_ne_bytes(),
            &size.to_ne_bytes(),
        ];
        [&head.concat()[..], &body].concat()
    });
    proptest::collection::vec(record, 0..12).prop_map(|records| records.concat())
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut found = Vec::new();
    let tally = decode(bytes, |access| found.push(access));
    // A sample has 48 bytes at least.
    prop_assert!(found.len() <= bytes.len() / 48);
    prop_assert!(tally.damaged <= 1 + bytes.len() as u64 / 8);
    for access in found {
        prop_assert!(access.weight >= 1);
        prop_assert!(!access.is_access || (access.address != 0 && access.address >> 63 == 0));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        check(&bytes)?;
    }

    #[test]
    fn no_records_are_a_panic(bytes in records()) {
        check(&bytes)?;
    }

    #[test]
    fn damage_of_a_recording_is_no_panic(at in 0..PAGE_FAULTS.len(), value: u8, cut in 0..PAGE_FAULTS.len()) {
        let mut bytes = PAGE_FAULTS.to_vec();
        bytes[at] = value;
        bytes.truncate(cut);
        check(&bytes)?;
    }
}

#[test]
fn a_recording_is_read_as_the_ring_was() {
    let mut recorded = RecordedRings {
        kind: Kind::PageFaults,
        took: Duration::from_millis(100),
        rings: [PAGE_FAULTS.to_vec()].into(),
    };
    let taken = recorded.take();
    assert_eq!((taken.tally.lost, taken.tally.damaged), (7, 0));
    // The record of lost samples has 24 bytes, samples with physical addresses 64.
    assert_eq!(taken.accesses.len(), (PAGE_FAULTS.len() - 24) / 64);
    assert!(taken.accesses.len() > 50);
    let of_shell = taken.accesses.iter().filter(|access| access.is_access);
    assert!(of_shell.clone().count() > 50);
    let mut before_ns = 0;
    for access in of_shell {
        assert_eq!((access.weight, access.served), (1, Served::Unknown));
        assert!(access.time_ns >= before_ns && access.process_id > 1 && access.cpu == 0);
        before_ns = access.time_ns;
    }
    let factor = (taken.accesses.len() as f64 + 7.0) / taken.accesses.len() as f64;
    assert!((taken.lost_factor() - factor).abs() < 1e-9);
    let empty = recorded.take();
    assert!(empty.accesses.is_empty() && empty.lost_factor() == 1.0);
}
