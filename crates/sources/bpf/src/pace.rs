//! For what part of the time the program is attached.
//!
//! While it is attached, every system call of every program takes the slow exit path of the kernel. With few calls
//! this costs little: the program stays attached, and misses nothing of programs that read now and then. With many
//! calls a short time is representative.

use std::time::Duration;

/// From one time to the next, at most.
const PERIOD: Duration = Duration::from_millis(800);
/// Four times in five windows of usual length: each window has one. Attaching and detaching takes longer with more
/// threads on the machine, because the kernel marks each of them.
const OF_WINDOW: f64 = 0.8;
/// The program is attached for at least one part in this number of the period.
const PARTS: u32 = 100;
/// How often in a period to check whether calls are still few: a burst slows programs down no longer than that.
const LOOKS: u32 = 10;
/// Upper bound of the extra cost of a call. One part in `CALL_PARTS` of one CPU may be spent on it. With more calls,
/// the reader of the counts of a thousand threads has more work than they are worth.
const CALL: Duration = Duration::from_micros(1);
const CALL_PARTS: u32 = 2000;

/// When to attach, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// From one time to the next.
    pub period: Duration,
    /// Of it, attached at least.
    pub shortest: Duration,
    /// And longer while there were at most this number of calls in the period.
    pub calls: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::in_windows_of(PERIOD.div_f64(OF_WINDOW))
    }
}

impl Pace {
    /// At least once in windows of this length.
    pub fn in_windows_of(window: Duration) -> Pace {
        let period = window.mul_f64(OF_WINDOW).min(PERIOD);
        let spent = period / CALL_PARTS;
        Pace {
            period,
            shortest: period / PARTS,
            calls: u64::try_from(spent.as_nanos() / CALL.as_nanos()).unwrap_or(0),
        }
    }

    /// All the time, whatever it costs.
    pub fn always() -> Pace {
        Pace {
            calls: u64::MAX,
            ..Pace::default()
        }
    }

    /// How much longer to stay after this time and number of calls; `None`: no longer in this period.
    pub(crate) fn further(&self, stayed: Duration, calls: u64) -> Option<Duration> {
        let left = self.period.saturating_sub(stayed);
        let calls_left = self.calls.saturating_sub(calls);
        // As many calls as so far in each moment: half of what that leaves, for there may be more.
        let lasts = stayed.as_secs_f64() * calls_left as f64 / calls.max(1) as f64 / 2.0;
        let lasts = Duration::try_from_secs_f64(lasts).unwrap_or(Duration::MAX);
        let step = lasts.min(self.period / LOOKS).min(left);
        let is_worth_it = !left.is_zero() && lasts >= self.shortest;
        is_worth_it.then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_are_counted_always_many_a_hundredth_of_it() {
        // For how long it is attached at this rate, and how many calls that are.
        let attached = |calls_s: f64| {
            let pace = Pace::default();
            let mut stayed = pace.shortest;
            let calls = |stayed: Duration| (stayed.as_secs_f64() * calls_s) as u64;
            while let Some(step) = pace.further(stayed, calls(stayed)) {
                assert!(step <= pace.period / LOOKS && !step.is_zero());
                stayed += step;
            }
            (stayed, calls(stayed))
        };
        let ms = Duration::from_millis;
        for calls_s in [0.0, 100.0, 400.0] {
            assert_eq!(attached(calls_s).0, ms(800), "{calls_s}");
        }
        for calls_s in [1e6, 2e6, 1e9] {
            assert_eq!(attached(calls_s).0, ms(8), "{calls_s}");
        }
        // Between the two, as long as that part of a CPU allows.
        for calls_s in [1e3, 5e3, 1.5e4] {
            let (stayed, calls) = attached(calls_s);
            assert!(stayed > ms(8) && stayed < ms(480), "{calls_s}: {stayed:?}");
            assert!((80..=400).contains(&calls), "{calls_s}: {calls}");
        }
    }

    #[test]
    fn short_windows_and_unknown_costs_are_held() {
        let pace = Pace::in_windows_of(Duration::from_millis(20));
        assert_eq!(pace.period, Duration::from_millis(16));
        assert_eq!(pace.shortest, Duration::from_micros(160));
        assert_eq!(pace.further(pace.shortest, u64::MAX), None);
        assert_eq!(pace.further(pace.period, 0), None);
        let always = Pace::always();
        let step = always.further(always.shortest, 1 << 40);
        assert_eq!(step, Some(always.period / LOOKS));
    }
}
