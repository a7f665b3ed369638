//! `egeria-lab papers`: the claims of the papers and the model's predictions.

use crate::common;

use common::run;
use egeria_harness::testing::memory;
use serde_json::Value;

#[test]
fn json_goes_into_other_tools() {
    let document: Value = run(["papers", "--brief", "--json"]).ok().json();
    let rows = document["rows"].as_array().unwrap();
    let held = document["ordering_rows"].as_array().unwrap().iter();
    let held = held.filter(|row| row["held"] == true && row["own_setting"] == false);
    assert_eq!(document["orderings_held"], held.count());
    let error = |row: &Value| (row["ratio"].as_f64().unwrap() - 1.0).abs();
    let mut errors: Vec<f64> = rows.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let middle = (errors[(errors.len() - 1) / 2] + errors[errors.len() / 2]) / 2.0;
    let median = document["median_error"].as_f64().unwrap();
    assert!((median - middle).abs() < 1e-9, "{median} {middle}");
    assert!(
        rows.iter()
            .all(|row| row["source"].is_string() && row["item"].is_string())
    );
}

#[test]
fn text_and_page_say_that_all_is_predicted() {
    let directory = memory();
    let page = directory.path().join("papers.html");
    let told = run(["papers", "--brief", "--report", page.to_str().unwrap()]).ok();
    for words in [
        "Predicted by a model, not measured",
        "N32",
        "orderings hold",
        "median error",
        "What the model cannot say",
    ] {
        assert!(told.stdout.contains(words), "{words}");
    }
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("not measured"));
    run(["papers", "--brief", "--report", "/proc/nowhere/page.html"])
        .refused(1, &["cannot write", "can be written"]);
}

#[test]
fn scores_end_as_their_aims_say() {
    for command in ["facts", "validation"] {
        let plain = run([command, "--json"]).ok();
        let document: Value = plain.json();
        let aims = document["aims"].as_array().unwrap();
        assert!(!aims.is_empty(), "{command}");
        let (mut missed, mut text) = (Vec::new(), run([command]).ok().stdout);
        for aim in aims {
            let (figure, wanted) = (
                aim["figure"].as_f64().unwrap(),
                aim["aim"].as_f64().unwrap(),
            );
            let is_met = if aim["at_most"] == true {
                figure <= wanted
            } else {
                figure >= wanted
            };
            assert_eq!(aim["met"], is_met, "{command}: {aim}");
            let what = aim["what"].as_str().unwrap();
            let at = text.find(&format!("{what}: ")).expect("the aim as text");
            text = text.split_off(at);
            if !is_met {
                missed.push(what);
            }
        }
        let strict = run([command, "--json", "--require-aims"]);
        assert_eq!(strict.status, i32::from(!missed.is_empty()), "{strict:?}");
        assert_eq!(strict.stdout, plain.stdout);
        let is_said = |what: &&str| strict.stderr.contains(*what);
        assert!(missed.iter().all(is_said), "{strict:?}");
    }
}
