//! The validation set.

#[test]
fn the_set_is_large_enough_and_every_row_is_counted_once() {
    let report = egeria_papers::validation().unwrap();
    assert!(report.predicted && report.all.rows >= 40);
    assert_eq!(report.rows.len(), report.all.rows);
    let held_out = report.rows.iter().filter(|row| row.fact.held_out).count();
    assert_eq!(report.held_out.rows, held_out);
    assert_eq!(report.independent.rows, report.rows.len() - held_out);
    for of in [report.all, report.independent, report.held_out] {
        assert!(of.median_error <= of.p90_error && of.p90_error <= of.worst_error);
    }
    assert!(report.rows.iter().all(|row| row.model > 0.0));
}

#[test]
fn orderings_are_counted_as_the_rows_say() {
    let report = egeria_papers::validation().unwrap();
    assert_eq!(report.orderings, report.ordering_rows.len());
    let held = report.ordering_rows.iter().filter(|each| each.model > 1.01);
    assert_eq!(report.orderings_held, held.count());
    assert!(report.orderings >= 10 && report.orderings_held <= report.orderings);
    assert!(report.ordering_rows.iter().all(|each| each.measured > 1.1));
}

#[test]
fn no_profile_cites_what_the_set_has() {
    for row in egeria_papers::validation().unwrap().rows {
        for cited in egeria_machine::Machine::profile_facts(&row.profile).unwrap() {
            assert_ne!(cited.source, row.fact.source);
        }
    }
}
