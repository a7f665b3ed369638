//! How often a trial is right, counted over simulated programs: the claims that `docs/how-to/trial.md` makes.

use egeria_trial::design::{BOUND, Design, ERROR, USUAL_PAIRS};
use egeria_trial::simulation::{Counts, Program, Shape, count};

const TRIALS: usize = 400;

fn counts(shape: Shape, noise: f64, change: f64) -> Counts {
    let program = Program {
        shape,
        noise,
        change,
    };
    count(program, &Design::new(USUAL_PAIRS, ERROR), BOUND, TRIALS)
}

#[test]
fn nothing_against_nothing_is_rarely_claimed_a_difference() {
    for shape in Shape::ALL {
        for noise in [0.03, 0.3] {
            let found = counts(shape, noise, 0.0);
            let claimed = found.better + found.worse;
            assert!(claimed * 100 <= 5 * TRIALS, "{shape:?}, {noise}: {found:?}");
        }
    }
}

#[test]
fn a_gain_of_5_percent_is_found_at_noise_of_3() {
    for change in [-0.05, 0.05] {
        let found = counts(Shape::Normal, 0.03, change);
        let (right, wrong) = match change {
            change if change < 0.0 => (found.better, found.worse),
            _ => (found.worse, found.better),
        };
        assert!(right * 100 >= 90 * TRIALS, "{change}: {found:?}");
        assert_eq!(wrong, 0, "{change}: {found:?}");
        assert!(found.pairs < 20.0, "{found:?}");
    }
}

#[test]
fn intervals_hold_the_truth_in_95_of_100() {
    for shape in Shape::ALL {
        for change in [-0.2, -0.05, 0.01] {
            let found = counts(shape, 0.03, change);
            let covered = found.covered * 100;
            // What a coarse clock shows of a change is a whole number of steps.
            let least = if shape == Shape::Coarse { 90 } else { 95 };
            assert!(covered >= least * TRIALS, "{shape:?}, {change}: {found:?}");
        }
    }
}

#[test]
fn no_difference_is_claimed_within_the_bound_only() {
    let none = counts(Shape::Normal, 0.01, 0.0);
    assert!(none.no_difference * 100 >= 95 * TRIALS, "{none:?}");
    for change in [-0.03, 0.03] {
        let found = counts(Shape::Normal, 0.01, change);
        assert!(found.no_difference * 100 <= 5 * TRIALS, "{found:?}");
    }
}

#[test]
fn much_noise_gives_no_answer() {
    let found = counts(Shape::Normal, 0.5, 0.0);
    assert!(found.not_known * 100 >= 95 * TRIALS, "{found:?}");
}
