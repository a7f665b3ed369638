//! Sets of CPUs behave like sets of numbers.

use std::collections::BTreeSet;

use egeria_facts::CpuSet;
use egeria_machine::{CpuId, MAX_CPUS};
use proptest::prelude::*;

fn numbers() -> impl Strategy<Value = BTreeSet<u16>> {
    let cpu = prop_oneof![0..200_u16, 0..MAX_CPUS as u16];
    prop::collection::btree_set(cpu, 0..40)
}

fn set(numbers: &BTreeSet<u16>) -> CpuSet {
    numbers.iter().copied().map(CpuId).collect()
}

fn members(set: &CpuSet) -> BTreeSet<u16> {
    set.iter().map(|cpu| cpu.0).collect()
}

proptest! {
    #[test]
    fn operations_are_those_of_sets(one in numbers(), other in numbers(), cpu in any::<u16>()) {
        let (left, right) = (set(&one), set(&other));
        prop_assert_eq!(members(&left.union(&right)), &one | &other);
        prop_assert_eq!(members(&left.intersection(&right)), &one & &other);
        prop_assert_eq!(members(&left.difference(&right)), &one - &other);
        prop_assert_eq!(left.intersects(&right), !one.is_disjoint(&other));
        prop_assert_eq!(left.is_subset(&right), one.is_subset(&other));
        prop_assert_eq!(left.contains(CpuId(cpu)), one.contains(&cpu));
        prop_assert_eq!((left.len(), left.is_empty()), (one.len(), one.is_empty()));
        prop_assert_eq!(left == right, one == other);
    }

    #[test]
    fn equal_members_are_equal_sets(one in numbers(), other in numbers()) {
        let there_and_back = set(&one).union(&set(&other)).difference(&set(&(&other - &one)));
        prop_assert_eq!(there_and_back, set(&one));
    }

    #[test]
    fn text_and_json_read_back(one in numbers()) {
        let written = set(&one);
        prop_assert_eq!(written.to_string().parse::<CpuSet>().expect("its own text"), written.clone());
        let json = serde_json::to_string(&written).expect("plain data");
        prop_assert_eq!(serde_json::from_str::<CpuSet>(&json).expect("its own text"), written);
    }
}

#[test]
fn text_is_the_kernels_list() {
    let set: CpuSet = "8,0-3,10-11".parse().expect("a list");
    assert_eq!(set.to_string(), "0-3,8,10-11");
    assert_eq!(CpuSet::default().to_string(), "");
}

#[test]
fn numbers_no_kernel_has_are_refused_or_never_members() {
    for text in ["8192", "0-9999999999", "3-1", "a", "1,,2", "-1"] {
        assert!(text.parse::<CpuSet>().is_err(), "{text}");
        assert!(
            serde_json::from_str::<CpuSet>(&format!("{text:?}")).is_err(),
            "{text}"
        );
    }
    let set: CpuSet = [CpuId(8191), CpuId(8192), CpuId(u16::MAX)]
        .into_iter()
        .collect();
    assert_eq!(set.to_string(), "8191");
}
