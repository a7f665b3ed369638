//! What a trial found: fields for programs, and sentences.

use std::time::Duration;

use egeria_stats::statistics::median;
use serde::Serialize;

use crate::activity::Activity;
use crate::answer::{Answer, Better, Finding};
use crate::noise::{Noise, noise};
use crate::side::{Done, Ledger};
use crate::trial::{Ended, Plan, Tried};

/// From this share of the machine's CPU time on, others make a host too busy to measure well.
const BUSY_SHARE: f64 = 0.2;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Described<'a> {
    /// A command, or a service.
    pub subject: String,
    /// Names of the sides.
    pub sides: Vec<&'a str>,
    /// `wall time`, or what the user named.
    pub measure: String,
    /// Unit of the values; empty where nothing says it.
    pub unit: &'static str,
    /// Runs that were not counted.
    pub warm_ups: usize,
    pub ledger: &'a Ledger,
}

/// What became of a copy that a side used.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Copied {
    /// What was copied.
    pub directory: String,
    pub files: usize,
    pub bytes: u64,
    /// Files whose content was what it was after the last run, and those that the command had changed.
    pub unchanged_files: usize,
    pub changed_files: usize,
    /// The machine of the volume where it is emulated; else `None`.
    pub machine: Option<String>,
}

impl Copied {
    /// In one sentence.
    pub fn sentence(&self) -> String {
        let bytes = egeria_stats::text::bytes(self.bytes as f64);
        let machine = self.machine.as_ref();
        let machine =
            machine.map_or_else(String::new, |machine| format!("; the volume is {machine}"));
        format!(
            "copy of {}: {} files, {bytes}, compared with it before the first run; after the last run {} files were as copied, {} were changed by the command{machine}",
            self.directory, self.files, self.unchanged_files, self.changed_files
        )
    }
}

/// A trial, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was measured: a command, or a service.
    pub subject: String,
    /// `wall time`, or what the user named.
    pub measure: String,
    /// Unit of the values; empty where nothing says it.
    pub unit: &'static str,
    pub better: Better,
    pub seed: u64,
    /// Differences up to this share are called none.
    pub bound: f64,
    /// Probability that all intervals hold the truth.
    pub confidence: f64,
    /// Runs that were not counted.
    pub warm_ups: usize,
    pub elapsed_s: f64,
    pub ended: Ended,
    pub sides: Vec<SideReport>,
    /// Each side but the first, compared with the first.
    pub comparisons: Vec<Comparison>,
    pub noise: Noise,
    /// Median over the runs of the share of the machine's CPU time that other programs had.
    pub others_share: Option<f64>,
    /// What measuring costs: CPU time of the trial's own process per CPU time of the command, in runs that nothing
    /// accompanies. `None` without such runs.
    pub overhead: Option<f64>,
    /// What makes the answer worth less, a line each.
    pub warnings: Vec<String>,
    /// Values by round and side.
    pub rounds: Vec<Vec<f64>>,
    /// The copy of a directory that sides used; `None` if none did.
    pub copy: Option<Copied>,
    /// How to keep what helped, ready to copy; `None` if nothing did.
    pub keep: Option<String>,
}

/// A side.
#[derive(Clone, Debug, Serialize)]
pub struct SideReport {
    pub name: String,
    pub runs: usize,
    pub median: Option<f64>,
    /// The least and the largest value.
    pub range: Option<[f64; 2]>,
    /// CPU time of the trial's own process, which has the steward, per time of the runs: 0.01 is 1 % of a CPU.
    pub own_cpus: Option<f64>,
    /// What the host counted of a service: medians over the blocks. `None` for a command.
    pub activity: Option<Activity>,
    pub done: Done,
}

impl SideReport {
    /// One of the values that the host counted, by its name.
    pub fn activity_of(&self, name: &str) -> Option<f64> {
        let named = self.activity?.named().into_iter();
        named.filter(|each| each.0 == name).find_map(|each| each.1)
    }
}

/// A side compared with the first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub side: String,
    pub against: String,
    #[serde(flatten)]
    pub finding: Finding,
    pub sentence: String,
}

impl Report {
    /// What came of a trial that took so long.
    pub fn new(plan: &Plan, tried: &Tried, of: Described<'_>, elapsed: Duration) -> Report {
        let noise = noise(&tried.runs);
        let mut done = of.ledger.done.iter();
        let stays = done.find_map(|done| done.stays.clone());
        let words = Words {
            plan,
            stays: stays.as_deref(),
            is_time: of.unit == "s",
            noise,
            ended: tried.ended,
            elapsed_s: elapsed.as_secs_f64(),
        };
        let name = |side: usize| of.sides[side].to_owned();
        let comparisons = tried.findings.iter().enumerate();
        let comparisons = comparisons.map(|(index, finding)| {
            let stays = |side: usize| of.ledger.done[side].stays.is_some();
            let finding = believed(finding, stays(index + 1), stays(0));
            Comparison {
                side: name(index + 1),
                against: name(0),
                finding,
                sentence: words.sentence(&name(index + 1), &name(0), &finding),
            }
        });
        let others = of.ledger.records.iter();
        let others: Vec<f64> = others.filter_map(|run| run.others_share).collect();
        let others_share = median(&others);
        let comparisons: Vec<Comparison> = comparisons.collect();
        Report {
            sides: sides(tried, &of),
            comparisons,
            subject: of.subject,
            measure: of.measure,
            unit: of.unit,
            better: plan.judge.better,
            seed: plan.seed,
            bound: plan.judge.bound,
            confidence: 1.0 - plan.judge.design.error() * (plan.sides - 1) as f64,
            warm_ups: of.warm_ups,
            elapsed_s: elapsed.as_secs_f64(),
            ended: tried.ended,
            noise,
            others_share,
            overhead: of.ledger.overhead(),
            warnings: warnings(noise, others_share, stays),
            rounds: tried.rounds.clone(),
            copy: None,
            keep: None,
        }
    }

    /// Names of what the host counted of any side's blocks.
    pub fn activity_names(&self) -> Vec<&'static str> {
        let names = Activity::default().named().map(|(name, _)| name);
        let mut names = names.to_vec();
        names.retain(|name| {
            self.sides
                .iter()
                .any(|side| side.activity_of(name).is_some())
        });
        names
    }

    /// The side that helped most, by its position; `None` if none did.
    pub fn best(&self) -> Option<usize> {
        let helped = self.comparisons.iter().enumerate();
        let helped = helped.filter(|(_, each)| each.finding.answer == Answer::Better);
        let gain = |comparison: &Comparison| comparison.finding.change.unwrap_or(0.0).abs();
        let most = helped.max_by(|(_, one), (_, other)| gain(one).total_cmp(&gain(other)));
        most.map(|(index, _)| index + 1)
    }

    /// The answer of all comparisons together: what helped, else what harms, else what is not known.
    pub fn answer(&self) -> Answer {
        let has = |answer| {
            self.comparisons
                .iter()
                .any(|each| each.finding.answer == answer)
        };
        let order = [Answer::Better, Answer::Worse, Answer::NotKnown];
        let found = order.into_iter().find(|answer| has(*answer));
        found.unwrap_or(Answer::NoDifference)
    }
}

fn sides(tried: &Tried, of: &Described<'_>) -> Vec<SideReport> {
    let side = |side: usize| {
        let values: Vec<f64> = tried.rounds.iter().map(|values| values[side]).collect();
        let runs = || of.ledger.records.iter().filter(move |run| run.side == side);
        let own_s: Option<f64> = runs().map(|run| run.own_s).sum();
        let elapsed_s: f64 = runs().map(|run| run.elapsed_s).sum();
        let activities: Vec<Activity> = runs().filter_map(|run| run.activity).collect();
        SideReport {
            name: of.sides[side].to_owned(),
            runs: values.len(),
            median: median(&values),
            range: range(&values),
            own_cpus: own_s
                .filter(|_| elapsed_s > 0.0)
                .map(|own_s| own_s / elapsed_s),
            activity: (!activities.is_empty()).then(|| Activity::median(&activities)),
            done: of.ledger.done[side].clone(),
        }
    };
    (0..of.sides.len()).map(side).collect()
}

fn range(values: &[f64]) -> Option<[f64; 2]> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some([least, most])
}

fn warnings(noise: Noise, others_share: Option<f64>, stays: Option<String>) -> Vec<String> {
    let drift = noise.drift.map(|drift| {
        format!(
            "values drifted: {} at the end than at the beginning; pairs next to each other were compared, so this favours no side",
            change(drift, ["more", "less"])
        )
    });
    let busy = others_share.filter(|share| *share > BUSY_SHARE).map(|share| {
        format!(
            "the host was busy: other programs had {} of its CPU time; repeat it when they rest",
            percent(share)
        )
    });
    drift.into_iter().chain(busy).chain(stays).collect()
}

/// What is left of a finding if something that the side or the first side did stays for the other one, which profits from it.
/// Then only the side that did it can be found better.
fn believed(found: &Finding, stays: bool, stays_of_first: bool) -> Finding {
    let is_certain = match found.answer {
        Answer::Better => !stays_of_first,
        Answer::Worse => !stays,
        Answer::NoDifference => !stays && !stays_of_first,
        Answer::NotKnown => true,
    };
    let answer = if is_certain {
        found.answer
    } else {
        Answer::NotKnown
    };
    Finding { answer, ..*found }
}

/// What sentences need.
struct Words<'a> {
    plan: &'a Plan,
    /// What one side did that stays for the others.
    stays: Option<&'a str>,
    is_time: bool,
    noise: Noise,
    ended: Ended,
    elapsed_s: f64,
}

impl Words<'_> {
    fn directions(&self) -> [&'static str; 2] {
        if self.is_time {
            ["more time", "less time"]
        } else {
            ["higher", "lower"]
        }
    }

    fn sentence(&self, side: &str, against: &str, found: &Finding) -> String {
        let pairs = match found.pairs {
            1 => "1 pair".to_owned(),
            pairs => format!("{pairs} pairs"),
        };
        let middle = change(found.change.unwrap_or(0.0), self.directions());
        let interval = found.low.zip(found.high).map(|ends| self.interval(ends));
        let interval = interval.map_or(pairs.clone(), |interval| format!("{interval}, {pairs}"));
        match found.answer {
            Answer::Better => {
                format!("{side} helps: {middle} than {against} ({interval})")
            }
            Answer::Worse => {
                format!("{side} harms: {middle} than {against} ({interval})")
            }
            Answer::NoDifference => format!(
                "{side} makes no difference larger than {} compared with {against} ({interval})",
                percent(self.plan.judge.bound)
            ),
            Answer::NotKnown => {
                let after = match self.ended {
                    Ended::Time => format!(" after {}", duration_s(self.elapsed_s)),
                    Ended::Known | Ended::Pairs => String::new(),
                };
                let spread = self.noise.spread.map(|spread| {
                    let spread = percent(spread);
                    format!(": runs differ by {spread} by themselves")
                });
                let why = match self.stays {
                    Some(_) => Some(": what was done in one run stays for the next".to_owned()),
                    None => spread,
                };
                format!(
                    "not known whether {side} helps{after} ({interval}){}",
                    why.unwrap_or_default()
                )
            }
        }
    }

    fn interval(&self, (low, high): (f64, f64)) -> String {
        let comparisons = self.plan.sides.saturating_sub(1) as f64;
        let confidence = 1.0 - self.plan.judge.design.error() * comparisons;
        let [more, less] = self.directions();
        let ends = match (low > 0.0, high < 0.0) {
            (true, _) => format!("{} to {}", bare(low), percent(high)),
            (_, true) => format!("{} to {}", bare(high), percent(low)),
            _ => format!("{} {less} to {} {more}", percent(low), percent(high)),
        };
        format!("{:.0} % interval {ends}", confidence * 100.0)
    }
}

/// The number of a share in percent, without its sign: one decimal below 10.
fn bare(share: f64) -> String {
    let percent = (share * 100.0).abs();
    if percent < 9.95 {
        let text = format!("{percent:.1}");
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    } else {
        format!("{percent:.0}")
    }
}

/// A share in percent, without its sign.
pub fn percent(share: f64) -> String {
    format!("{} %", bare(share))
}

/// A change in percent, and its direction in words.
pub fn change(share: f64, [more, less]: [&str; 2]) -> String {
    let direction = if share < 0.0 { less } else { more };
    format!("{} {direction}", percent(share))
}

/// Minutes, or seconds if it is less than two minutes.
pub fn duration_s(elapsed_s: f64) -> String {
    match elapsed_s.round() as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} minutes", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Judge;
    use crate::design::{Design, ERROR};

    fn with_words<T>(stays: Option<&str>, use_them: impl FnOnce(&Words<'_>) -> T) -> T {
        let plan = Plan {
            sides: 2,
            judge: Judge {
                design: Design::new(100, ERROR),
                better: Better::Lower,
                bound: 0.02,
            },
            at_most: Duration::from_secs(1200),
            seed: 1,
        };
        use_them(&Words {
            plan: &plan,
            stays,
            is_time: true,
            noise: Noise {
                spread: Some(0.3),
                drift: None,
            },
            ended: Ended::Time,
            elapsed_s: 1200.0,
        })
    }

    fn sentence(answer: Answer, change: f64, interval: Option<(f64, f64)>) -> String {
        let finding = Finding {
            answer,
            change: Some(change),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            pairs: 14,
        };
        with_words(None, |words| words.sentence("all", "off", &finding))
    }

    #[test]
    fn every_answer_is_one_sentence() {
        assert_eq!(
            sentence(Answer::Better, -0.12, Some((-0.148, -0.091))),
            "all helps: 12 % less time than off (98 % interval 9.1 to 15 %, 14 pairs)"
        );
        assert_eq!(
            sentence(Answer::Worse, 0.04, Some((0.03, 0.05))),
            "all harms: 4 % more time than off (98 % interval 3 to 5 %, 14 pairs)"
        );
        assert_eq!(
            sentence(Answer::NoDifference, 0.0, Some((-0.011, 0.013))),
            "all makes no difference larger than 2 % compared with off (98 % interval 1.1 % less time to 1.3 % more time, 14 pairs)"
        );
        assert_eq!(
            sentence(Answer::NotKnown, 0.0, Some((-0.1, 0.2))),
            "not known whether all helps after 20 minutes (98 % interval 10 % less time to 20 % more time, 14 pairs): runs differ by 30 % by themselves"
        );
        assert_eq!(
            sentence(Answer::NotKnown, 0.0, None),
            "not known whether all helps after 20 minutes (14 pairs): runs differ by 30 % by themselves"
        );
    }

    #[test]
    fn what_stays_makes_claims_of_the_other_side_uncertain() {
        let finding = |answer| Finding {
            answer,
            change: Some(0.0),
            low: Some(-0.01),
            high: Some(0.01),
            pairs: 14,
        };
        let all = [Answer::Better, Answer::Worse, Answer::NoDifference];
        let kept = |stays, stays_of_first| -> Vec<Answer> {
            let believed =
                all.map(|answer| believed(&finding(answer), stays, stays_of_first).answer);
            let kept = believed.into_iter().zip(all);
            kept.filter(|(believed, answer)| believed == answer)
                .map(|(_, answer)| answer)
                .collect()
        };
        assert_eq!(kept(false, false), all);
        assert_eq!(kept(true, false), [Answer::Better]);
        assert_eq!(kept(false, true), [Answer::Worse]);
        assert_eq!(kept(true, true), []);
        with_words(Some("memory stays"), |words| {
            let sentence = words.sentence("all", "off", &finding(Answer::NotKnown));
            assert!(
                sentence.ends_with("what was done in one run stays for the next"),
                "{sentence}"
            );
        });
    }
}
