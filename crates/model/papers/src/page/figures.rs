//! The figures of the papers that the model redraws: a table, `data/figures.toml`.

use std::collections::BTreeMap;

use egeria_report::chart::{Column, ColumnGroup, Columns, Line, Lines};
use serde::Deserialize;

use super::figure::{Chart, Facts, Figure};
use crate::claim::Paper;
use crate::error::{Result, shipped};
use crate::said::{Combine, Said, curve, groups};

const TABLE: &str = include_str!("../../data/figures.toml");
const NAME: &str = "figures.toml";
const SYSTEMS: [&str; 8] = [
    "ext4-dax", "pmfs", "nova", "nova_n", "rl", "cpu", "nm", "full",
];
const MEAN: &str = "mean";

#[derive(Deserialize)]
struct Table {
    figure: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    paper: Paper,
    name: String,
    title: String,
    #[serde(default)]
    note: String,
    /// The claims it is about.
    #[serde(default)]
    ids: Vec<String>,
    #[serde(flatten)]
    drawing: Drawing,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Drawing {
    Systems(SystemColumns),
    Columns(NamedColumns),
    Lines(NamedLines),
}

/// A column for each system in groups of workloads, all compared with NOVA.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemColumns {
    key: String,
    /// By "group: system, system".
    points: BTreeMap<String, String>,
}

/// Columns of one series.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedColumns {
    unit: String,
    #[serde(default)]
    series: Vec<String>,
    color: usize,
    /// Group, value, point, and where it is not the group's the column's name.
    columns: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedLines {
    x_unit: String,
    y_unit: String,
    /// Name, curve, points.
    lines: Vec<Vec<String>>,
}

/// All that were run, in the papers' order.
pub(super) fn all(facts: &Facts<'_>) -> Result<Vec<Figure>> {
    let table: Table = toml::from_str(TABLE).map_err(|error| shipped(NAME, error.message()))?;
    let figures = table.figure.into_iter();
    Ok(figures.filter_map(|entry| entry.draw(facts)).collect())
}

impl Entry {
    fn draw(self, facts: &Facts<'_>) -> Option<Figure> {
        let (series, chart) = match &self.drawing {
            Drawing::Systems(drawing) => drawing.draw(facts)?,
            Drawing::Columns(drawing) => drawing.draw(facts)?,
            Drawing::Lines(drawing) => drawing.draw(facts)?,
        };
        Some(Figure {
            paper: self.paper,
            name: self.name,
            title: self.title,
            note: self.note,
            series,
            chart,
            ids: self.ids,
        })
    }
}

fn value(facts: &Facts<'_>, text: &str) -> Option<f64> {
    Said::parse(text, Combine::Mean)?.of(facts.results)
}

impl SystemColumns {
    fn draw(&self, facts: &Facts<'_>) -> Option<(Vec<String>, Chart)> {
        let workloads = groups(&self.key);
        let column = |group: &str, (series, system): (usize, &&str)| {
            let ratio = match group {
                MEAN => format!("{} | {system}/nova", self.key),
                group => format!("{} | {group} | {system}/nova", self.key),
            };
            Some(Column {
                series,
                name: format!("{group}, {system}"),
                value: value(facts, &ratio)?,
                range: None,
                point: self
                    .point(group, system)
                    .and_then(|text| facts.of_paper(text)),
            })
        };
        let group = |name: &&str| {
            let columns = SYSTEMS.iter().enumerate();
            Some(ColumnGroup {
                name: (*name).to_owned(),
                columns: columns
                    .map(|each| column(name, each))
                    .collect::<Option<_>>()?,
            })
        };
        let groups = workloads.iter().chain(&[MEAN]).map(group);
        let columns = Columns {
            unit: "times NOVA".to_owned(),
            groups: groups.collect::<Option<_>>()?,
        };
        let series = SYSTEMS.map(str::to_owned).to_vec();
        Some((series, Chart::Columns(columns)))
    }

    fn point(&self, group: &str, system: &str) -> Option<&str> {
        let is_of = |(key, _): &(&String, &String)| {
            let (of, systems) = key.split_once(": ").unwrap_or_default();
            of == group && systems.split(", ").any(|each| each == system)
        };
        self.points.iter().find(is_of).map(|(_, point)| &**point)
    }
}

impl NamedColumns {
    fn draw(&self, facts: &Facts<'_>) -> Option<(Vec<String>, Chart)> {
        let group = |column: &Vec<String>| {
            let cell = |index| column.get(index).map_or("", String::as_str);
            let (group, name) = (cell(0), cell(3));
            let name = if name.is_empty() { group } else { name };
            Some(ColumnGroup {
                name: group.to_owned(),
                columns: vec![Column {
                    series: self.color,
                    name: name.to_owned(),
                    value: value(facts, cell(1))?,
                    range: None,
                    point: facts.of_paper(cell(2)),
                }],
            })
        };
        let columns = Columns {
            unit: self.unit.clone(),
            groups: self.columns.iter().map(group).collect::<Option<_>>()?,
        };
        Some((self.series.clone(), Chart::Columns(columns)))
    }
}

impl NamedLines {
    fn draw(&self, facts: &Facts<'_>) -> Option<(Vec<String>, Chart)> {
        let line = |(series, line): (usize, &Vec<String>)| {
            let [name, text, points @ ..] = &line[..] else {
                return None;
            };
            let values = curve(text, facts.results)?;
            let point = |text: &String| {
                let (x, value) = text.split_once(": ")?;
                let x = match x {
                    "last" => values.last()?.0,
                    x => x.parse().ok()?,
                };
                Some((x, facts.of_paper(value)?))
            };
            Some(Line {
                series,
                name: name.clone(),
                points: points.iter().filter_map(point).collect(),
                values,
            })
        };
        let lines = self.lines.iter().enumerate().map(line);
        let lines = Lines {
            x_unit: self.x_unit.clone(),
            y_unit: self.y_unit.clone(),
            lines: lines.collect::<Option<_>>()?,
            low: false,
        };
        let series = lines.lines.iter().map(|line| line.name.clone()).collect();
        Some((series, Chart::Lines(lines)))
    }
}
