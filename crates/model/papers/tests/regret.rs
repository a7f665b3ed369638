//! Decisions that do not hurt: the whole planner compared with no decisions, and with each paper's system.

use egeria_papers::regret::{Case, Regret, case, published, random};

fn regret(seed: u64, count: u64) -> Regret {
    let run = |number: u64| -> Case {
        let (machine, workload, allocation) = random(seed, number).unwrap();
        case(&machine, &workload, allocation).unwrap()
    };
    Regret::of((0..count).map(run).collect())
}

/// The same numbers give the same workloads, which are of many kinds.
#[test]
fn random_workloads_follow_from_their_numbers() {
    let of = |number: u64| random(1, number).unwrap();
    assert_eq!(of(5).1, of(5).1);
    assert_ne!(of(5).1, of(14).1);
    let all: Vec<_> = (0..90).map(|number| of(number).1).collect();
    let groups = || all.iter().flat_map(|workload| &workload.threads);
    assert!(groups().any(|group| group.pinned) && groups().any(|group| group.lockstep));
    assert!(groups().any(|group| group.phases.len() > 1) && groups().any(|group| group.shared));
    assert!(groups().any(|group| group.count > 50) && groups().any(|group| group.count == 1));
}

#[test]
fn the_planner_hardly_ever_loses_to_what_it_is_made_of() {
    let regret = regret(1, 27);
    assert!(
        regret.below_off <= 1 && regret.below_best <= 2,
        "{regret:#?}"
    );
}

/// The aim is none; some minutes: `cargo test --release -p egeria-papers --test regret -- --ignored`.
#[test]
#[ignore = "takes long"]
fn few_of_two_thousand_random_workloads_lose() {
    let regret = regret(7, 2000);
    assert!(
        regret.below_off * 50 < regret.cases && regret.below_best * 20 < regret.cases,
        "{regret:#?}"
    );
}

#[test]
fn the_planner_loses_nothing_on_the_workloads_of_the_papers() {
    // The runs of the others are long: `cargo run --release -p egeria-papers --example regret papers` has all.
    let all = published().unwrap().into_iter();
    let all: Vec<_> = all.filter(|each| each.1.seconds <= 60.0).collect();
    assert!(all.len() > 5);
    let cases = all
        .into_iter()
        .map(|(machine, workload, place)| case(&machine, &workload, place).unwrap());
    let regret = Regret::of(cases.collect());
    assert_eq!((regret.below_best, regret.below_off), (0, 0), "{regret:#?}");
}
