//! The table, and that every claim of it is answered once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use egeria_papers::{Extent, Paper, Report, claims, distance, distances};

fn brief() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| egeria_papers::run(Extent::Brief, |_, _, _| ()).unwrap())
}

fn answered(report: &Report) -> BTreeSet<String> {
    let rows = [&report.rows, &report.bound_rows, &report.settings];
    let rows = rows.into_iter().flatten().map(|row| &row.id);
    let orderings = report.ordering_rows.iter().map(|row| &row.id);
    let listed = report.inputs.iter().chain(&report.unanswered);
    let listed = listed.map(|row| &row.id);
    rows.chain(orderings).chain(listed).cloned().collect()
}

#[test]
fn the_table_has_all_claims_of_all_papers_once() {
    let claims = claims().unwrap();
    let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!((claims.len(), ids.len()), (231, 231));
    let of = |paper| claims.iter().filter(|claim| claim.paper == paper).count();
    assert_eq!(Paper::ALL.map(of), [90, 19, 51, 15, 56]);
}

#[test]
fn every_claim_is_answered_in_one_way_only() {
    let report = brief();
    let answered = answered(report);
    let claims = claims().unwrap();
    let is_silent = |claim: &&egeria_papers::Claim| !answered.contains(&claim.id);
    let silent: Vec<_> = claims.iter().filter(is_silent).collect();
    assert!(silent.is_empty(), "{silent:?}");
    assert_eq!(answered.len(), claims.len());
    let judged: BTreeSet<&str> = report.rows.iter().map(|row| row.id.as_str()).collect();
    for row in report.inputs.iter().chain(&report.unanswered) {
        assert!(!judged.contains(row.id.as_str()), "{} is counted", row.id);
        assert!(!row.why.is_empty());
    }
}

#[test]
fn every_experiment_that_an_answer_needs_is_run() {
    let rows = brief().unanswered.iter();
    let ids = rows.filter(|row| row.why == "its experiment was not run");
    let ids: Vec<&str> = ids.map(|row| row.id.as_str()).collect();
    assert_eq!(ids, [""; 0]);
}

#[test]
fn a_changed_claim_changes_its_error_and_the_summary() {
    let report = brief();
    let mut claims = claims().unwrap();
    let claim = claims.iter_mut().find(|claim| claim.id == "N32").unwrap();
    claim.value = "-90".to_owned();
    let changed = Report::of(&claims, report.results.clone()).unwrap();
    let row = |report: &Report| {
        let mut rows = report.rows.iter();
        rows.find(|row| row.id == "N32").unwrap().clone()
    };
    assert!((row(&changed).paper - 0.1).abs() < 1e-9);
    assert_eq!(row(&changed).model, row(report).model);
    assert!(row(&changed).error > row(report).error + 1.0);
    assert_eq!(changed.orderings_held + 1, report.orderings_held);
    assert!(changed.p90_error >= report.p90_error);
    assert_ne!(changed.summary(), report.summary());
}

#[test]
fn the_errors_of_the_summary_are_those_of_the_rows() {
    let report = brief();
    let at_most = |bound: f64| report.rows.iter().filter(|row| row.error <= bound).count();
    let count = report.rows.len();
    assert!(at_most(report.median_error) * 2 >= count);
    assert!(at_most(report.median_error - 1e-9) * 2 <= count);
    assert!(at_most(report.p90_error) * 10 >= count * 9);
    let counted = || report.ordering_rows.iter().filter(|row| !row.own_setting);
    let held = counted().filter(|row| row.held).count();
    let summed = (report.orderings, report.orderings_held);
    assert_eq!(summed, (counted().count(), held));
    let numbered: BTreeSet<_> = report.rows.iter().map(|row| (&row.id, &row.item)).collect();
    let is_pure = |row: &&egeria_papers::OrderingRow| !numbered.contains(&(&row.id, &row.item));
    let pure: Vec<_> = counted().filter(is_pure).collect();
    let pure_held = pure.iter().filter(|row| row.held).count();
    let summed = (report.pure_orderings, report.pure_orderings_held);
    assert_eq!(summed, (pure.len(), pure_held));
    for row in &report.rows {
        assert!((row.model / row.paper - row.ratio).abs() < 1e-12, "{row:?}");
        assert!(
            ((row.ratio - 1.0).abs() - row.error).abs() < 1e-12,
            "{row:?}"
        );
    }
}

#[test]
fn quotients_of_inputs_and_own_settings_are_not_counted() {
    let report = brief();
    let why = |id: &str| {
        let mut inputs = report.inputs.iter();
        let input = inputs.find(|input| input.id == id);
        input.map_or("", |input| input.why.as_str())
    };
    let table_5 = (45..=51).map(|number| format!("A{number}"));
    let quotients = [
        "N45", "P15", "P38", "P39", "P40", "A04", "A31", "A32", "A52",
    ]
    .map(String::from);
    for id in quotients.into_iter().chain(table_5) {
        assert!(why(&id).starts_with("quotient of inputs"), "{id}");
    }
    let orderings = report.ordering_rows.iter();
    let own = orderings.filter(|row| row.own_setting);
    assert!(own.clone().all(|row| !row.pure));
    let own: Vec<&str> = own.map(|row| row.id.as_str()).collect();
    assert_eq!(own, ["N03", "N05", "S12", "S15", "S16", "S17", "O15"]);
    let bounds = report.bound_rows.iter().filter(|row| row.own_setting);
    assert_eq!(report.own_settings, own.len() + bounds.clone().count());
    assert_eq!(
        bounds.map(|row| row.id.as_str()).collect::<Vec<_>>(),
        ["P36"]
    );
}

#[test]
fn an_ordering_of_several_parts_holds_when_all_do() {
    let of = |facerec: f64| {
        let mut results = brief().results.clone();
        results.set(
            "A2",
            "facerec",
            "asymsched",
            facerec * results.bar("A2", "facerec", "best").unwrap(),
        );
        let report = Report::of(&claims().unwrap(), results).unwrap();
        let held = |id: &str| {
            report
                .ordering_rows
                .iter()
                .find(|row| row.id == id)
                .unwrap()
                .held
        };
        (held("A39"), held("A40"))
    };
    assert_eq!(
        [of(0.8), of(1.0), of(1.2)],
        [(false, false), (true, false), (true, true)]
    );
}

#[test]
fn settings_and_worked_values_are_the_papers() {
    let report = brief();
    let wrong: Vec<_> = report.wrong_settings().collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(report.settings.iter().any(|row| row.id == "P26"));
}

#[test]
fn the_same_input_gives_the_same_report() {
    let again = egeria_papers::run(Extent::Brief, |_, _, _| ()).unwrap();
    assert_eq!(&again, brief());
}

#[test]
fn json_has_the_summary_and_numbers_under_their_names() {
    let report = brief();
    let json = serde_json::to_value(report).unwrap();
    for name in [
        "pure_orderings",
        "pure_orderings_held",
        "orderings",
        "orderings_held",
        "median_error",
        "p90_error",
    ] {
        assert!(json[name].is_number(), "{name}");
    }
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), report.rows.len());
    for row in rows {
        assert!(row["source"].is_string() && row["item"].is_string());
        for name in ["paper", "model", "ratio"] {
            assert!(row[name].is_number(), "{row}");
        }
    }
    assert_eq!(json["predicted"], true);
}

#[test]
fn every_distance_is_explained_and_in_the_manual() {
    let report = egeria_papers::run(Extent::Full, |_, _, _| ()).unwrap();
    let far = report.far();
    let silent: Vec<_> = far.iter().filter(|id| distance(id).is_none()).collect();
    assert!(silent.is_empty(), "{silent:?}");
    let manual = include_str!("../../../../docs/explanation/model.md");
    for (ids, why) in distances() {
        let line = format!("| {} | {why} |", ids.join(", "));
        assert!(
            manual.contains(&line),
            "docs/explanation/model.md lacks: {line}"
        );
    }
}

#[test]
fn beyond_the_papers_data_moves_where_threads_cannot_help() {
    let report = brief();
    assert_eq!(report.beyond.len(), 18);
    let hot = report.beyond.last().unwrap();
    let of = |system: &str| {
        let mut figures = hot.figures.iter();
        figures.find(|(name, _)| *name == system).unwrap().1
    };
    // Four nodes have four times what one has, and only data that moves gets there.
    assert!(of("full") < of("off") * 1.5);
    assert!(of("all") > of("full") * 2.0);
}
