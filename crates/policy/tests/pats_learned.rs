//! The learned limit on made-up machines: where the formula is right, too low, too high; with
//! noise; where the knee moves and where the work changes.

mod common;

use common::knee::{Curve, Noise, any_curve, rests, run, run_told};
use egeria_policy::pats::{Because, Controller, Decision, Limiter, Measured, Settings};

/// Windows after which it has settled, without noise and with 5 % of it.
const QUIET_WINDOWS: usize = 40;
const NOISY_WINDOWS: usize = 100;
const NOISE: f64 = 0.05;
/// Windows after which it has followed a change that shows, and one that does not.
const CHANGE_WINDOWS: u32 = 60;
const SILENT_WINDOWS: u32 = 250;

fn learned() -> Settings {
    Settings {
        controller: Controller::Learned,
        ..Settings::default()
    }
}

/// Within 10 % of the best constant limit, and borne.
fn is_good(curve: &Curve, limit: u32, slack: f64) -> bool {
    let settings = learned();
    let strict = Settings {
        tolerated_loss: settings.tolerated_loss - slack,
        ..settings.clone()
    };
    let borne = curve.bears(limit, settings.tolerated_loss + slack);
    borne && curve.pm(limit) >= 0.9 * curve.best_pm(&strict)
}

#[test]
fn it_finds_the_best_constant_limit_of_any_machine() {
    for seed in 0..300 {
        let curve = any_curve(seed);
        let mut limiter = Limiter::new(&learned());
        let steps = run_told(&mut limiter, &curve, &mut Noise::none(), 600);
        for rest in &rests(&steps)[QUIET_WINDOWS..] {
            let rest = rest.expect("settled by now");
            assert!(
                is_good(&curve, rest, 0.0),
                "{rest} on machine {seed}: {curve:?}"
            );
        }
    }
}

#[test]
fn it_finds_it_in_noise() {
    let (mut late, mut bad) = (0, 0);
    for seed in 0..300 {
        let curve = any_curve(seed);
        let mut limiter = Limiter::new(&learned());
        let mut noise = Noise::new(seed, NOISE);
        let steps = run_told(&mut limiter, &curve, &mut noise, 600);
        let good = |rest: &Option<u32>| rest.is_some_and(|rest| is_good(&curve, rest, 0.03));
        let rests = rests(&steps);
        late += u32::from(!rests[NOISY_WINDOWS..].iter().all(good));
        bad += u32::from(!good(rests.last().expect("600 windows")));
    }
    assert!(
        late <= 3 && bad <= 1,
        "of 300, {late} were later and {bad} not at the end"
    );
}

#[test]
fn at_rest_it_is_never_more_than_one_step_away_and_never_goes_back() {
    for (deviation, share) in [(0.0, 0.08), (NOISE, 0.16)] {
        for seed in 0..100 {
            let curve = any_curve(seed);
            let mut limiter = Limiter::new(&learned());
            let mut noise = Noise::new(seed, deviation);
            let before = run_told(&mut limiter, &curve, &mut noise, 200);
            let mut rest = rests(&before)[199].expect("settled by now");
            let (mut left, mut away) = (Vec::new(), 0);
            for (limit, decision) in run_told(&mut limiter, &curve, &mut noise, 1000) {
                let at = format!("machine {seed}, noise {deviation}, rest {rest}: {decision}");
                assert!(limit.abs_diff(rest) <= 1, "more than a step, {at}");
                away += u32::from(limit != rest);
                if decision.because == Because::Settled && decision.limit != rest {
                    left.push(std::mem::replace(&mut rest, decision.limit));
                    assert!(!left.contains(&rest), "back again, {at}");
                }
            }
            // Noise may hide for long which of two neighbours is better.
            assert!(
                left.len() <= usize::from(deviation > 0.0),
                "{left:?} on machine {seed}"
            );
            assert!(
                f64::from(away) <= share * 1000.0,
                "{away} windows on machine {seed}"
            );
        }
    }
}

fn most_frequent(limits: &[u32]) -> u32 {
    let count = |limit: u32| limits.iter().filter(|&&each| each == limit).count();
    let most = limits.iter().copied().max_by_key(|&limit| count(limit));
    most.expect("limits")
}

/// Mean of persistent memory and the share of windows in which DRAM lost too much.
fn score(controller: Controller, dimms: u32, curve: &Curve) -> (f64, f64) {
    const WINDOWS: u32 = 1000;
    let settings = Settings {
        controller,
        dimms,
        ..Settings::default()
    };
    let mut limiter = Limiter::new(&settings);
    let limits = run(&mut limiter, curve, &mut Noise::new(1, 0.02), WINDOWS);
    let pm: f64 = limits.iter().map(|&limit| curve.pm(limit)).sum();
    let lost = limits.iter().filter(|&&limit| !curve.bears(limit, 0.23));
    (
        pm / f64::from(WINDOWS),
        lost.count() as f64 / f64::from(WINDOWS),
    )
}

#[test]
fn it_beats_a_formula_that_is_too_low() {
    // Eq. 1 says 2 for writes on one DIMM, whatever bears more.
    for (peak, knee) in [(5.0, 8.0), (12.0, 16.0), (30.0, 40.0)] {
        let curve = Curve {
            peak,
            knee,
            ..Curve::default()
        };
        let (by_formula, _) = score(Controller::Formula, 1, &curve);
        let (by_learning, lost) = score(Controller::Learned, 1, &curve);
        let best = curve.best_pm(&learned());
        assert!(by_formula < 0.5 * best, "the formula is wrong here");
        assert!(
            by_learning > 0.9 * best,
            "{by_learning} of {best}, search included"
        );
        assert!(lost < 0.06, "{lost}");
    }
}

#[test]
fn it_beats_a_formula_that_is_too_high() {
    // Eq. 1 says 8 for writes on six DIMMs; these bear 2 to 5.
    for knee in [2.0, 3.0, 5.0] {
        let curve = Curve {
            peak: 4.0,
            knee,
            waterfall: 2.0,
            ..Curve::default()
        };
        let (_, lost_by_formula) = score(Controller::Formula, 6, &curve);
        let (pm, lost) = score(Controller::Learned, 6, &curve);
        assert_eq!(lost_by_formula, 1.0, "DRAM collapses in every window");
        assert!(lost < 0.06, "{lost}");
        assert!(pm > 0.9 * curve.best_pm(&learned()), "{pm}");
    }
}

#[test]
fn where_the_formula_is_right_it_costs_little() {
    let curve = Curve {
        peak: 2.0,
        knee: 2.0,
        waterfall: 1.0,
        ..Curve::default()
    };
    let (by_formula, _) = score(Controller::Formula, 1, &curve);
    let (by_learning, lost) = score(Controller::Learned, 1, &curve);
    assert_eq!(by_formula, curve.best_pm(&learned()));
    assert!(
        by_learning > 0.95 * by_formula,
        "{by_learning} of {by_formula}"
    );
    assert!(lost < 0.06, "{lost}");
}

/// Settles on one machine, goes on for so many windows on another, and must be good there.
fn follows(from: &Curve, to: &Curve, windows: u32) {
    for seed in 0..20 {
        for deviation in [0.0, 0.02] {
            let mut noise = Noise::new(seed, deviation);
            let mut limiter = Limiter::new(&learned());
            let _ = run(&mut limiter, from, &mut noise, 300 + seed as u32);
            let _ = run(&mut limiter, to, &mut noise, windows);
            let limits = run(&mut limiter, to, &mut noise, 100);
            let rest = most_frequent(&limits);
            assert!(
                is_good(to, rest, 0.03),
                "{rest} with noise {deviation} on {to:?}"
            );
        }
    }
}

#[test]
fn it_follows_a_knee_that_comes_nearer() {
    let far = Curve {
        peak: 16.0,
        knee: 16.0,
        ..Curve::default()
    };
    for knee in [2.0, 5.0, 9.0] {
        follows(&far, &Curve { knee, ..far }, CHANGE_WINDOWS);
    }
}

#[test]
fn it_follows_a_knee_that_goes_away_without_a_sign() {
    // At the limit at rest nothing changes: only a probe can tell.
    let near = Curve {
        peak: 24.0,
        knee: 4.0,
        waterfall: 2.0,
        ..Curve::default()
    };
    for knee in [6.0, 12.0, 24.0] {
        follows(&near, &Curve { knee, ..near }, SILENT_WINDOWS);
    }
}

#[test]
fn it_follows_a_peak_that_moves() {
    let one = Curve {
        peak: 4.0,
        knee: 30.0,
        fall: 0.1,
        ..Curve::default()
    };
    let other = Curve { peak: 16.0, ..one };
    follows(&one, &other, SILENT_WINDOWS);
    follows(&other, &one, SILENT_WINDOWS);
}

#[test]
fn dram_that_is_asked_for_less_is_no_loss() {
    let curve = Curve::default();
    for dram_asked in [0.0, 0.4, 2.0] {
        follows(
            &curve,
            &Curve {
                dram_asked,
                ..curve
            },
            CHANGE_WINDOWS,
        );
    }
}

#[test]
fn bursts_of_dram_do_not_keep_it_searching() {
    let busy = Curve::default();
    let idle = Curve {
        dram_asked: 0.3,
        ..busy
    };
    let (mut noise, mut limiter) = (Noise::new(1, 0.02), Limiter::new(&learned()));
    let mut searching = 0;
    for turn in 0..200 {
        let curve = if turn % 2 == 0 { &busy } else { &idle };
        let limits = run(&mut limiter, curve, &mut noise, 20);
        if turn >= 100 {
            searching += limits
                .iter()
                .filter(|&&limit| limit.abs_diff(4) > 1)
                .count();
        }
    }
    assert!(searching <= 200, "{searching} of 2000 windows");
}

#[test]
fn one_wild_window_in_ten_does_not_unsettle_it() {
    let curve = Curve {
        peak: 9.0,
        knee: 9.0,
        ..Curve::default()
    };
    let (mut noise, mut limiter) = (Noise::new(3, 0.02), Limiter::new(&learned()));
    let mut last = Vec::new();
    for window in 0..1000 {
        let limit = limiter.limit();
        let mut measured = curve.measured(limit, &mut noise);
        if window % 10 == 7 {
            measured.pm_bytes_s *= 5.0;
            measured.dram_bytes_s *= 0.1;
        }
        let _ = limiter.next(&measured);
        last.push(limit);
    }
    let rest = most_frequent(&last[500..]);
    assert!(is_good(&curve, rest, 0.03), "{rest}");
    let away = last[500..]
        .iter()
        .filter(|&&limit| limit.abs_diff(rest) > 1);
    assert_eq!(away.count(), 0);
}

#[test]
fn tolerance_is_obeyed_at_its_ends() {
    let curve = Curve {
        peak: 20.0,
        ..Curve::default()
    };
    for (tolerated_loss, wanted) in [(0.0, 1), (1.0, 20)] {
        let settings = Settings {
            tolerated_loss,
            ..learned()
        };
        let mut limiter = Limiter::new(&settings);
        let limits = run(&mut limiter, &curve, &mut Noise::none(), 300);
        assert_eq!(most_frequent(&limits[100..]), wanted);
    }
}

#[test]
fn it_never_admits_more_than_the_most_nor_than_ask() {
    let curve = Curve {
        peak: 50.0,
        knee: 60.0,
        demand: 7,
        ..Curve::default()
    };
    for most_threads in [1, 2, 5, 64] {
        let settings = Settings {
            most_threads,
            ..learned()
        };
        let mut limiter = Limiter::new(&settings);
        let limits = run(&mut limiter, &curve, &mut Noise::none(), 300);
        let most = most_threads.min(7);
        assert!(limits.iter().all(|&limit| (1..=most).contains(&limit)));
        assert_eq!(most_frequent(&limits), most, "all of them are borne");
    }
}

#[test]
fn windows_with_few_threads_say_nothing_about_the_limit() {
    let curve = Curve {
        peak: 12.0,
        knee: 12.0,
        ..Curve::default()
    };
    let (mut noise, mut limiter) = (Noise::new(5, 0.02), Limiter::new(&learned()));
    let _ = run(&mut limiter, &curve, &mut noise, 200);
    let rest = limiter.limit();
    let few = Curve { demand: 3, ..curve };
    let limits = run(&mut limiter, &few, &mut noise, 500);
    assert!(limits[1..].iter().all(|&limit| limit == rest), "{limits:?}");
}

#[test]
fn a_search_that_lacked_threads_goes_on_when_they_come() {
    let many = Curve {
        peak: 20.0,
        knee: 20.0,
        ..Curve::default()
    };
    for demand in [1, 3, 7] {
        follows(&Curve { demand, ..many }, &many, CHANGE_WINDOWS);
    }
    // Also when they leave in the middle of it.
    let (mut noise, mut limiter) = (Noise::new(9, 0.02), Limiter::new(&learned()));
    for windows in 1..20 {
        let _ = run(&mut limiter, &many, &mut noise, windows);
        let _ = run(&mut limiter, &Curve { demand: 2, ..many }, &mut noise, 5);
    }
    let _ = run(&mut limiter, &many, &mut noise, SILENT_WINDOWS);
    assert!(is_good(&many, limiter.limit(), 0.03), "{}", limiter.limit());
}

#[test]
fn dram_that_collapses_under_few_threads_is_seen() {
    let curve = Curve {
        peak: 12.0,
        knee: 12.0,
        ..Curve::default()
    };
    let worse = Curve {
        knee: 3.0,
        demand: 8,
        ..curve
    };
    follows(&curve, &worse, CHANGE_WINDOWS);
}

#[test]
fn idle_windows_and_nonsense_change_nothing() {
    let (mut noise, mut limiter) = (Noise::none(), Limiter::new(&learned()));
    let curve = Curve::default();
    let good = curve.measured(4, &mut noise);
    let nonsense = [
        Measured::default(),
        Measured {
            pm_bytes_s: f64::NAN,
            ..good
        },
        Measured {
            dram_bytes_s: f64::INFINITY,
            ..good
        },
        Measured {
            pm_bytes_s: -1.0,
            ..good
        },
        Measured {
            pm_bytes_s: 0.0,
            ..good
        },
    ];
    for windows in [0, 3, 9, 100] {
        let _ = run(&mut limiter, &curve, &mut noise, windows);
        for measured in &nonsense {
            let before = limiter.limit();
            let decision = limiter.next(measured);
            assert_eq!((decision.limit, limiter.limit()), (before, before));
            assert_eq!(decision.because, Because::Idle);
        }
    }
    assert!(is_good(&curve, limiter.limit(), 0.0));
}

#[test]
fn the_same_windows_give_the_same_decisions() {
    let told = || {
        let (mut noise, mut limiter) = (Noise::new(11, 0.1), Limiter::new(&learned()));
        run_told(&mut limiter, &any_curve(4), &mut noise, 400)
    };
    assert_eq!(told(), told());
}

#[test]
fn decisions_are_sentences_with_their_numbers() {
    let curve = Curve::default();
    let mut limiter = Limiter::new(&learned());
    let steps = run_told(&mut limiter, &curve, &mut Noise::none(), 40);
    let lines: Vec<String> = steps
        .iter()
        .map(|(_, decision)| decision.to_string())
        .collect();
    assert!(
        lines
            .iter()
            .all(|line| !line.is_empty() && !line.contains('\n'))
    );
    assert_eq!(lines[0], "1 thread at once: to see DRAM undisturbed");
    let tried = "8 was tried and not taken (persistent memory +15 %, DRAM 90 % below its best); \
                 6 threads at once: it may be better than 4";
    assert!(lines.iter().any(|line| line == tried), "{lines:#?}");
    let json = serde_json::to_string(&steps[20].1).expect("plain data");
    assert_eq!(
        serde_json::from_str::<Decision>(&json).ok(),
        Some(steps[20].1)
    );
}
