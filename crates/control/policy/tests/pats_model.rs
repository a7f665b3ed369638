//! PATS's equations and what is summed for them on numbers worked by hand.

use egeria_admission::Request;
use egeria_facts::{Measured, Mix};
use egeria_machine::AccessKind;
use egeria_policy::pats::model::{
    cautious_limit, dimm_term, limit_for, pattern_term, serving_threads, size_term,
};
use egeria_policy::pats::{Controller, Limiter, Settings, Tally};
use proptest::prelude::*;

fn read(bytes: u64) -> Request {
    Request {
        kind: AccessKind::Read,
        bytes,
    }
}

fn write(bytes: u64) -> Request {
    Request {
        kind: AccessKind::Write,
        bytes,
    }
}

fn mix_of(requests: &[Request]) -> Mix {
    let mut tally = Tally::default();
    requests.iter().for_each(|&request| tally.add(request));
    tally.mix()
}

#[test]
fn eq_1_gives_the_papers_worked_values() {
    // §III-C: W_r = 1, S = 4096 B, N = 1.
    assert_eq!(serving_threads(0.1, 1, 4096.0, 1.0), 2);
    assert_eq!(serving_threads(0.5, 1, 4096.0, 1.0), 4);
    // The default of §V: floor(1.4 * 2).
    assert_eq!(serving_threads(0.2, 1, 4096.0, 1.0), 2);
}

#[test]
fn eq_1_by_hand() {
    // Reads: floor(1.4 * 3); half of each: floor(1.4 * 2.5).
    assert_eq!(serving_threads(0.2, 1, 4096.0, 0.0), 4);
    assert_eq!(serving_threads(0.2, 1, 4096.0, 0.5), 3);
    // DIMMs: floor(2.8 + 1.2), floor(2.8 + 2.4).
    assert_eq!(serving_threads(0.2, 2, 4096.0, 1.0), 4);
    assert_eq!(serving_threads(0.2, 3, 4096.0, 1.0), 5);
    // Sizes: floor(2.8 + 3), floor(2.8 + 7).
    assert_eq!(serving_threads(0.2, 1, 128.0, 1.0), 5);
    assert_eq!(serving_threads(0.2, 1, 64.0, 1.0), 9);
}

#[test]
fn eqs_2_3_and_4_by_hand() {
    assert_eq!((pattern_term(0.0), pattern_term(1.0)), (3.0, 2.0));
    assert_eq!((dimm_term(1), dimm_term(3)), (0.0, 2.0));
    assert_eq!((size_term(256.0), size_term(1e12)), (0.0, 0.0));
    assert_eq!((size_term(128.0), size_term(64.0)), (3.0, 7.0));
    // Eq. 4 leaps at 256 B: just below, 2 * 256 / 256 - 1 is one thread more.
    assert!((size_term(255.999) - 1.0).abs() < 1e-4);
}

#[test]
fn eq_1_does_not_tell_the_thresholds_of_fig_14_apart_downwards() {
    // Fig. 14: 512 B writes on one DIMM with T_mc 0.1 (Dec), 0.2 (Def), 0.3 (Inc). The paper
    // measures a difference between the first two; its own equation gives none.
    let limit = |tolerated_loss| serving_threads(tolerated_loss, 1, 512.0, 1.0);
    assert_eq!((limit(0.1), limit(0.2), limit(0.3)), (2, 2, 3));
    assert_eq!((limit(0.0), limit(0.249), limit(0.25)), (2, 2, 3));
}

#[test]
fn values_out_of_range_are_brought_into_it() {
    let least = serving_threads(0.0, 1, 4096.0, 1.0);
    assert_eq!(least, 2);
    for nonsense in [f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(serving_threads(nonsense, 0, 4096.0, 1.0), least);
    }
    assert_eq!(serving_threads(0.0, 1, f64::NAN, f64::NAN), least);
    assert_eq!(serving_threads(0.0, 1, f64::INFINITY, 7.0), least);
    let bytes_of_nothing = serving_threads(0.0, 1, 0.0, 1.0);
    assert_eq!(bytes_of_nothing, serving_threads(0.0, 1, 1.0, 1.0));
}

/// Eq. 1 in whole numbers: `T_mc` in hundredths, `W_r` as a fraction, a whole size.
fn exactly(loss_percent: i128, dimms: i128, bytes: i128, writes: i128, requests: i128) -> i128 {
    let size = if bytes >= 256 { 0 } else { 512 - bytes };
    let divisor = 100 * requests * bytes;
    let pattern = (100 + 2 * loss_percent) * (3 * requests - writes) * bytes;
    let more = (100 + loss_percent) * (dimms - 1) * requests * bytes;
    (pattern + more + size * 100 * requests) / divisor
}

#[test]
fn eq_1_is_exact_where_its_sum_is_whole() {
    let mut whole = 0;
    for loss in 0..=100_i128 {
        for (dimms, bytes) in [(1, 4096), (2, 256), (3, 255), (6, 128), (6, 7), (12, 1)] {
            for requests in [1, 2, 3, 7, 10, 16] {
                for writes in 0..=requests {
                    let exact = exactly(loss, dimms, bytes, writes, requests);
                    let share = writes as f64 / requests as f64;
                    let threads =
                        serving_threads(loss as f64 / 100.0, dimms as u32, bytes as f64, share);
                    assert_eq!(i128::from(threads), exact, "{loss} {dimms} {bytes} {share}");
                    whole += 1;
                }
            }
        }
    }
    assert!(whole > 20_000);
}

#[test]
fn a_window_without_requests_has_no_mean() {
    let mix = mix_of(&[]);
    assert_eq!(mix, Mix::default());
    assert_eq!(limit_for(&mix, &Settings::default()), None);
    assert_eq!(
        mix_of(&[read(0), write(0)]).requests,
        0,
        "no length, no access"
    );
}

#[test]
fn one_request_is_the_mean() {
    let mix = mix_of(&[write(64)]);
    assert_eq!(
        (mix.requests, mix.mean_bytes, mix.write_share),
        (1, 64.0, 1.0)
    );
    assert_eq!(limit_for(&mix, &Settings::default()), Some(9));
}

#[test]
fn means_are_over_requests_not_bytes() {
    let mix = mix_of(&[read(100), read(100), write(1000), read(0)]);
    assert_eq!((mix.requests, mix.mean_bytes), (3, 400.0));
    assert_eq!(mix.write_share, 1.0 / 3.0);
}

#[test]
fn huge_sizes_have_a_mean() {
    let mix = mix_of(&[write(u64::MAX); 5]);
    assert_eq!((mix.mean_bytes, mix.write_share), (u64::MAX as f64, 1.0));
    let mut tally = Tally {
        requests: u64::MAX,
        writes: u64::MAX,
        bytes: u128::MAX,
    };
    tally.merge(&tally.clone());
    tally.add(write(u64::MAX));
    assert!(tally.mix().mean_bytes.is_finite());
}

#[test]
fn the_formula_sets_the_limit_window_by_window() {
    let mut limiter = Limiter::new(&Settings::default());
    assert_eq!(limiter.limit(), 2, "what the heaviest requests bear");
    let measured = |mix| Measured {
        mix,
        ..Measured::default()
    };
    let decision = limiter.next(&measured(mix_of(&[read(4096)])));
    assert_eq!((decision.limit, limiter.limit()), (4, 4));
    assert_eq!(
        decision.to_string(),
        "4 threads at once: Eq. 1 for 1 requests of 4096 B, 0 % writes"
    );
    let idle = limiter.next(&Measured::default());
    assert_eq!(idle.limit, 4, "an idle window changes nothing");
    assert_eq!(limiter.next(&measured(mix_of(&[write(4096)]))).limit, 2);
}

#[test]
fn no_limit_is_above_the_most_threads() {
    let settings = Settings {
        max_threads: 1,
        ..Settings::default()
    };
    assert_eq!(cautious_limit(&settings), 1);
    assert_eq!(limit_for(&mix_of(&[read(1)]), &settings), Some(1));
    for controller in Controller::ALL {
        let settings = Settings {
            controller,
            ..settings.clone()
        };
        assert_eq!(Limiter::new(&settings).limit(), 1);
    }
}

fn request() -> impl Strategy<Value = Request> {
    (any::<bool>(), prop_oneof![0..600_u64, any::<u64>()])
        .prop_map(|(writes, bytes)| if writes { write(bytes) } else { read(bytes) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn order_and_division_of_requests_do_not_matter(
        requests in prop::collection::vec(request(), 0..40),
        turn in 0..40_usize,
        cut in 0..40_usize,
    ) {
        let whole = mix_of(&requests);
        let mut turned = requests.clone();
        turned.reverse();
        turned.rotate_left(turn % requests.len().max(1));
        prop_assert_eq!(mix_of(&turned), whole);
        let (one, other) = requests.split_at(cut.min(requests.len()));
        let (mut sum, mut rest) = (Tally::default(), Tally::default());
        one.iter().for_each(|&request| sum.add(request));
        other.iter().for_each(|&request| rest.add(request));
        sum.merge(&rest);
        prop_assert_eq!(sum.mix(), whole);
    }

    #[test]
    fn a_limit_is_never_below_2_nor_above_the_most(
        requests in prop::collection::vec(request(), 1..40),
        tolerated_loss in 0.0..=1.0,
        dimms in 1..=64_u32,
    ) {
        let settings = Settings { tolerated_loss, dimms, ..Settings::default() };
        let limit = limit_for(&mix_of(&requests), &settings);
        let is_empty = requests.iter().all(|request| request.bytes == 0);
        prop_assert_eq!(limit.is_none(), is_empty);
        prop_assert!(limit.is_none_or(|limit| (2..=64).contains(&limit)));
    }

    #[test]
    fn writes_never_raise_the_limit_and_dimms_never_lower_it(
        tolerated_loss in 0.0..=1.0,
        dimms in 1..=63_u32,
        mean_bytes in 1.0..10_000.0,
        shares in (0.0..=1.0, 0.0..=1.0),
    ) {
        let (less, more) = (f64::min(shares.0, shares.1), f64::max(shares.0, shares.1));
        let limit = |dimms, share| serving_threads(tolerated_loss, dimms, mean_bytes, share);
        prop_assert!(limit(dimms, more) <= limit(dimms, less));
        prop_assert!(limit(dimms + 1, less) >= limit(dimms, less));
    }
}
