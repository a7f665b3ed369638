//! The errors that ranges of predictions come from are those of the model as it is.

use egeria_papers::{Extent, run};
use egeria_sim::uncertainty::known_errors;

/// Ratios of two machines that compute alike differ by rounding only.
const ROUNDING: f64 = 0.002;

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDING
}

#[test]
fn the_errors_that_ship_are_the_models() {
    let shipped = known_errors();
    let now = run(Extent::Full, |_, _, _| ())
        .unwrap()
        .known_errors()
        .unwrap();
    let hint = "run `cargo run --release --example known_errors -p egeria-papers > crates/model/sim/data/errors.toml`";
    assert_eq!(shipped.speed.len(), now.speed.len(), "{hint}");
    assert_eq!(shipped.gain.len(), now.gain.len(), "{hint}");
    for (old, new) in shipped.speed.iter().zip(&now.speed) {
        assert_eq!(old.kind, new.kind, "{hint}");
        assert!(near(old.ratio, new.ratio), "{hint}: {old:?}, {new:?}");
    }
    for (old, new) in shipped.gain.iter().zip(&now.gain) {
        assert_eq!(old.paper, new.paper, "{hint}");
        assert!(near(old.ratio, new.ratio), "{hint}: {old:?}, {new:?}");
    }
}
