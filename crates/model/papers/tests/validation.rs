//! The validation sets.

use std::sync::OnceLock;

use egeria_papers::ValidationReport;

fn report() -> &'static ValidationReport {
    static REPORT: OnceLock<ValidationReport> = OnceLock::new();
    REPORT.get_or_init(|| egeria_papers::validation().unwrap())
}

#[test]
fn the_sets_are_large_enough_and_every_row_is_counted_once() {
    assert!(report().predicted);
    assert_eq!(report().sets().count(), 2);
    for set in report().sets() {
        assert!(set.all.rows >= 40, "{}", set.set);
        assert_eq!(set.rows.len(), set.all.rows);
        let held_out = set.rows.iter().filter(|row| row.fact.held_out).count();
        assert_eq!(set.held_out.rows, held_out);
        assert_eq!(set.independent.rows, set.rows.len() - held_out);
        for of in [set.all, set.independent, set.held_out, set.bandwidths] {
            assert!(of.median_error <= of.p90_error && of.p90_error <= of.worst_error);
        }
        assert!(set.rows.iter().all(|row| row.model > 0.0));
    }
}

#[test]
fn orderings_are_counted_as_the_rows_say() {
    for set in report().sets() {
        assert_eq!(set.orderings, set.ordering_rows.len());
        let held = set.ordering_rows.iter().filter(|each| each.model > 1.01);
        assert_eq!(set.orderings_held, held.count());
        assert!(set.orderings >= 5 && set.orderings_held <= set.orderings);
        assert!(set.ordering_rows.iter().all(|each| each.measured > 1.1));
    }
}

#[test]
fn each_set_has_its_aims() {
    let medians = report().sets().map(|set| set.median_error);
    let aims = report().aims.iter().filter(|aim| aim.at_most);
    assert!(medians.eq(aims.map(|aim| aim.figure)));
    assert!(
        report()
            .aims
            .iter()
            .all(|aim| aim.aim == 0.2 || aim.aim == 0.9)
    );
}

#[test]
fn a_load_makes_latencies_no_shorter() {
    for row in report().more.iter().flat_map(|set| &set.rows) {
        if row.fact.load_bytes_s.is_some() {
            let machine = &row.profile;
            let idle = report().more.iter().flat_map(|set| &set.rows);
            let same = idle.filter(|other| {
                other.profile == *machine
                    && other.fact.load_bytes_s < row.fact.load_bytes_s
                    && other.fact.load_bytes_s.is_some()
            });
            for other in same {
                assert!(row.model >= other.model - 0.5, "{row:?} {other:?}");
            }
        }
    }
}

#[test]
fn no_profile_cites_what_the_sets_have() {
    let names = egeria_machine::Machine::profile_names();
    for row in report().sets().flat_map(|set| &set.rows) {
        for name in names {
            for cited in egeria_machine::Machine::profile_facts(name).unwrap() {
                assert_ne!(cited.source, row.fact.source);
            }
        }
    }
}
