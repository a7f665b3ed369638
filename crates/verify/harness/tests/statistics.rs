//! The figures are computed as said.

use egeria_stats::statistics::{median, rotated_order};

#[test]
fn the_median_is_the_mean_of_the_middle_values() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0]), Some(3.0));
    assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 100.0, 2.0]), Some(3.0));
    assert_eq!(median(&[f64::NAN, 5.0, f64::INFINITY, 1.0]), Some(5.0));
}

#[test]
fn every_subject_has_every_place_equally_often() {
    for place in 0..3 {
        let mut seen: Vec<usize> = (0..3)
            .map(|round| rotated_order(3, round).nth(place).unwrap())
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }
    for round in 0..7 {
        let mut all: Vec<usize> = rotated_order(3, round).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }
}
