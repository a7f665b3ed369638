//! Which of two measured settings is faster.
//!
//! A rule decides which pairs are compared, declared before the model ran on them (docs/explanation/validation.md). It
//! takes all pairs of measurements of one study on one machine that differ in one setting only, if their figures
//! differ by more than a tenth. Measurements of one setting count as one, with their mean.

use egeria_machine::FactValue;
use serde::Serialize;

use crate::facts::FactRow;

/// Measurements nearer to each other than this say nothing about which is faster.
const MIN_LEAD: f64 = 1.1;

/// Two settings, one faster than the other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidationOrdering {
    pub source: String,
    pub profile: String,
    /// In what the settings differ, and both values, the faster one first.
    pub item: String,
    /// The faster over the slower, as measured.
    pub measured: f64,
    /// The faster over the slower, in the model.
    pub model: f64,
    /// Whether the model has the same one faster.
    pub held: bool,
}

/// What the model has nearer to each other is a tie, which is no ordering.
const MIN_MODEL_LEAD: f64 = 1.01;

/// What a setting is made of, by name.
type Setting = Vec<(&'static str, String)>;

struct Point {
    study: String,
    profile: String,
    setting: Setting,
    measured: f64,
    model: f64,
    count: f64,
}

/// All that the rule names among these.
pub(crate) fn orderings(rows: &[FactRow]) -> Vec<ValidationOrdering> {
    let points = points(rows);
    let mut found = Vec::new();
    for (index, one) in points.iter().enumerate() {
        for other in &points[index + 1..] {
            found.extend(ordering(one, other));
        }
    }
    found
}

fn points(rows: &[FactRow]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for row in rows {
        let FactValue::BytesPerSecond(measured) = row.fact.value else {
            continue;
        };
        let study = row.fact.source.split(',').next().unwrap_or_default();
        let setting = setting(row);
        let known = points.iter_mut().find(|point| {
            point.study == study && point.profile == row.profile && point.setting == setting
        });
        match known {
            Some(point) => {
                point.count += 1.0;
                point.measured += (measured - point.measured) / point.count;
            }
            None => points.push(Point {
                study: study.to_owned(),
                profile: row.profile.clone(),
                setting,
                measured,
                model: row.model,
                count: 1.0,
            }),
        }
    }
    points
}

fn setting(row: &FactRow) -> Setting {
    let fact = &row.fact;
    vec![
        ("memory", format!("{:?}", fact.memory).to_lowercase()),
        ("node of the memory", fact.node.0.to_string()),
        ("node of the cores", fact.home.0.to_string()),
        (
            "share of reads",
            format!("{:.0} %", fact.read_share * 100.0),
        ),
        (
            "pattern",
            if fact.random { "random" } else { "sequential" }.to_owned(),
        ),
        ("bytes of an access", fact.request_bytes.to_string()),
        ("threads", fact.threads.to_string()),
        ("computing", format!("{:.0} ns", fact.think_ns)),
        ("at once", fact.at_once.to_string()),
    ]
}

/// What two measurements say, if the rule names them.
fn ordering(one: &Point, other: &Point) -> Option<ValidationOrdering> {
    if one.study != other.study || one.profile != other.profile {
        return None;
    }
    let (fast, slow) = if one.measured >= other.measured {
        (one, other)
    } else {
        (other, one)
    };
    let parts = fast.setting.iter().zip(&slow.setting);
    let mut unlike = parts.filter(|(fast, slow)| fast != slow);
    let (fast_part, slow_part) = unlike.next()?;
    let measured = fast.measured / slow.measured;
    if unlike.next().is_some() || measured <= MIN_LEAD {
        return None;
    }
    let same = fast.setting.iter().filter(|part| *part != fast_part);
    let same: Vec<String> = same
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let model = fast.model / slow.model;
    Some(ValidationOrdering {
        source: fast.study.clone(),
        profile: fast.profile.clone(),
        item: format!(
            "{}: {} before {}, at {}",
            fast_part.0,
            fast_part.1,
            slow_part.1,
            same.join(", ")
        ),
        measured,
        model,
        held: model > MIN_MODEL_LEAD,
    })
}

#[cfg(test)]
mod tests {
    use super::orderings;
    use crate::facts::{FactRow, row};

    fn rows(measured: &[(u64, bool, f64)], model: &[f64]) -> Vec<FactRow> {
        let text = |(threads, random, gb_s): &(u64, bool, f64)| {
            let pattern = if *random { "random" } else { "sequential" };
            format!(
                "[[series]]\nmachine = \"odin-8s\"\nsource = \"a study, {threads}\"\nmemory = \"persistent\"\nkind = \"read\"\n\
                 request_bytes = 4096\nthreads = {threads}\nrows = [{{ pattern = \"{pattern}\", bandwidth_gb_s = {gb_s:.1} }}]\n"
            )
        };
        let text: Vec<String> = measured.iter().map(text).collect();
        let facts = egeria_machine::Machine::read_facts(&text.concat(), "test").unwrap();
        let rows = facts.into_iter().map(|fact| row("odin-8s", fact).unwrap());
        rows.zip(model)
            .map(|(row, model)| FactRow {
                model: *model,
                ..row
            })
            .collect()
    }

    #[test]
    fn pairs_that_differ_in_one_thing_by_a_tenth_are_compared() {
        let measured = [
            (4, false, 10.0),
            (8, false, 20.0),
            (8, true, 18.5),
            (4, true, 8.0),
        ];
        let found = orderings(&rows(&measured, &[10.0, 20.0, 30.0, 9.0]));
        // 20 and 18.5 are too near; 10 and 18.5, 20 and 8 differ in two things.
        let held: Vec<_> = found
            .iter()
            .map(|each| (each.measured, each.held))
            .collect();
        assert_eq!(held, [(2.0, true), (1.25, true), (18.5 / 8.0, true)]);
        let wrong = orderings(&rows(&measured, &[20.0, 10.0, 30.0, 9.0]));
        assert!(!wrong[0].held && wrong[1].held, "{wrong:?}");
    }

    #[test]
    fn measurements_of_one_setting_count_as_one() {
        let measured = [(4, false, 10.0), (4, false, 14.0), (8, false, 15.0)];
        let found = orderings(&rows(&measured, &[1.0, 1.0, 2.0]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].measured, 1.25);
    }
}
