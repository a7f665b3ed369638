//! `egeria-lab trials`: the counts of simulated trials, and real ones.

use crate::common;

use common::run;

#[test]
fn counts_and_rows_are_complete_and_within_the_aims() {
    let arguments = [
        "trials",
        "--simulated",
        "60",
        "--real",
        "0",
        "--programs",
        "none",
        "--json",
    ];
    let report = run(arguments).ok().json();
    let simulated = report["simulated"].as_array().unwrap();
    assert_eq!(simulated.len(), 8 * 3);
    for row in simulated {
        let answers = ["better", "worse", "no_difference", "not_known"];
        let sum: u64 = answers.iter().filter_map(|name| row[name].as_u64()).sum();
        assert_eq!(sum, 60, "{row}");
    }
    let claimed =
        |row: &serde_json::Value| row["better"].as_u64().unwrap() + row["worse"].as_u64().unwrap();
    let same = simulated.iter().filter(|row| row["truth"] == 0.0);
    let most = same.map(claimed).max().unwrap();
    assert_eq!(report["false_alarms_of_100"], most as f64 / 60.0 * 100.0);
    assert!(report["found_of_100"].as_f64().unwrap() > 90.0, "{report}");
}

#[test]
fn real_trials_say_what_they_found() {
    let quick = ["--simulated", "1", "--real", "1", "--pairs", "8"];
    let arguments = ["trials", "--programs", "none", "--json"]
        .into_iter()
        .chain(quick);
    let report = run(arguments).ok().json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert_eq!(row["pairs"], 8, "{row}");
        let claims = ["better", "worse"].contains(&row["answer"].as_str().unwrap());
        if row["kind"] == "none" {
            assert_eq!(row["right"], !claims, "{row}");
        }
    }
}

#[test]
fn a_real_program_has_a_truth_and_an_answer() {
    let quick = ["--simulated", "1", "--real", "0", "--pairs", "8"];
    let truth = ["--truth-pairs", "8", "--truth-batches", "1"];
    let arguments = ["trials", "--only", "python-cold", "--json"].into_iter();
    let report = run(arguments.chain(quick).chain(truth)).ok().json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{report}");
    let row = &rows[0];
    assert_eq!(row["kind"], "gain");
    assert_eq!(row["truth_pairs"], 8, "{row}");
    assert!(row["truth"].as_f64().unwrap().abs() < 10.0, "{row}");
    assert!(row["overhead"].as_f64().unwrap() < 1.0, "{row}");
    let wrong = ["trials", "--only", "python-hot"];
    run(wrong).refused(2, &["python-hot", "python-cold"]);
}
