//! A trial for people: the answer, a table, and what else they should know.

use egeria_cli::output::table;
use egeria_trial::report::{Report, duration_s, percent};

pub(super) fn human(report: &Report) -> String {
    let mut text = String::new();
    for comparison in &report.comparisons {
        text += &comparison.sentence;
        text.push('\n');
    }
    for warning in &report.warnings {
        text += &format!("warning: {warning}\n");
    }
    text += &format!("\n{}\n\n", sides(report));
    if let Some(activities) = activities(report) {
        text += &format!("{activities}\n\n");
    }
    let spread = report.noise.spread.map_or_else(String::new, |spread| {
        format!("; runs differ by {} by themselves", percent(spread))
    });
    text += &format!(
        "{} in {}, {} run before that not counted{spread}; seed {}\n",
        report.measure,
        duration_s(report.elapsed_s),
        report.warm_ups,
        report.seed
    );
    if let Some(overhead) = report.overhead {
        text += &format!(
            "measuring took {} of the CPU time that the runs took\n",
            percent(overhead)
        );
    }
    if let Some(copy) = &report.copy {
        text += &format!("{}\n", copy.sentence());
    }
    let limits = report.sides.iter().flat_map(|side| &side.done.limits);
    let mut said: Vec<&String> = Vec::new();
    for limit in limits {
        if !said.contains(&limit) {
            text += &format!("{limit}\n");
            said.push(limit);
        }
    }
    if let Some(keep) = &report.keep {
        text += &format!("\nTo keep it:\n\n{keep}");
    }
    text
}

fn sides(report: &Report) -> String {
    let median = format!(">median{}", if report.unit.is_empty() { "" } else { ", s" });
    let headers = ["side", ">runs", &median, ">CPU of Egeria", "what was done"];
    let rows = report.sides.iter().map(|side| {
        vec![
            side.name.clone(),
            side.runs.to_string(),
            side.median.map_or_else(String::new, four_figures),
            side.own_cpus.map_or_else(String::new, percent),
            side.done.words(),
        ]
    });
    table(&headers, rows.collect())
}

/// What the host counted of a service.
fn activities(report: &Report) -> Option<String> {
    let seen = report.activity_names();
    if seen.is_empty() {
        return None;
    }
    let headers = seen.iter().map(|name| format!(">{name}"));
    let headers: Vec<String> = ["side".to_owned()].into_iter().chain(headers).collect();
    let rows = report.sides.iter().map(|side| {
        let values = seen.iter().map(|name| side.activity_of(name));
        let values = values.map(|value| value.map_or_else(String::new, four_figures));
        [side.name.clone()].into_iter().chain(values).collect()
    });
    Some(table(&headers, rows.collect()))
}

fn four_figures(value: f64) -> String {
    let whole = value.abs().log10().floor().clamp(-9.0, 3.0);
    let places = (3.0 - whole) as usize;
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::four_figures;

    #[test]
    fn values_have_four_figures() {
        let shown = [0.012_34, 1.0, 12.345, 123_456.7].map(four_figures);
        assert_eq!(shown, ["0.01234", "1.000", "12.35", "123457"]);
    }
}
