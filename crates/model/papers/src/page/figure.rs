//! A figure of a paper: the model's columns or lines, the paper's points, the claims it is about.

use egeria_report::chart::{Color, Columns, Lines};
use egeria_report::page::{figure, key};
use maud::{Markup, html};

use crate::answer::Reading;
use crate::claim::{Claim, Paper};
use crate::results::Results;
use crate::said::{Combine, Said};

/// What a figure shows.
pub(crate) enum Chart {
    Columns(Columns),
    Lines(Lines),
}

pub(crate) struct Figure {
    pub(crate) paper: Paper,
    /// As the paper numbers it.
    pub(crate) name: String,
    /// What it shows, in a line.
    pub(crate) title: String,
    /// What must be known to read it.
    pub(crate) note: String,
    /// Names of the series, in the order of their colours.
    pub(crate) series: Vec<String>,
    pub(crate) chart: Chart,
    /// The claims it is about.
    pub(crate) ids: Vec<String>,
}

impl Figure {
    /// Where links in the page lead.
    pub(crate) fn anchor(&self) -> String {
        let both = format!("{} {}", self.paper.name(), self.name);
        let letter = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        both.chars().map(letter).collect()
    }

    /// The picture with its caption, and what stands `below`.
    pub(crate) fn draw(&self, below: &Markup) -> Markup {
        let title = format!("{}: {}", self.name, self.title);
        let keys = html! {
            @for (index, name) in self.series.iter().enumerate() { (key(Color::Series(index), name)) }
            @if self.has_points() { span { i.key.point {} "the paper" } }
        };
        let description = format!(
            "{} {title}, predicted, with the paper's points; the table below has the numbers.",
            self.paper.name()
        );
        let picture = match &self.chart {
            Chart::Columns(columns) => columns.draw(&description),
            Chart::Lines(lines) => lines.draw(&description),
        };
        let below = html! {
            @if !self.note.is_empty() { p.note { (self.note) } }
            (below)
        };
        figure(Some(&self.anchor()), &title, &keys, &picture, &below)
    }

    fn has_points(&self) -> bool {
        match &self.chart {
            Chart::Columns(columns) => {
                let mut columns = columns.groups.iter().flat_map(|group| &group.columns);
                columns.any(|column| column.point.is_some())
            }
            Chart::Lines(lines) => lines.lines.iter().any(|line| !line.points.is_empty()),
        }
    }
}

/// The papers' numbers and the model's, to draw figures from.
pub(crate) struct Facts<'a> {
    pub(crate) claims: &'a [Claim],
    pub(crate) results: &'a Results,
}

impl Facts<'_> {
    /// A number of the paper, as `data/figures.toml` names it.
    pub(crate) fn of_paper(&self, text: &str) -> Option<f64> {
        if let Some((factor, said)) = text.split_once(" times ") {
            let model = Said::parse(said, Combine::Mean)?.of(self.results)?;
            return Some(self.of_paper(factor)? * model);
        }
        let (word, number) = text.split_once(' ').unwrap_or(("change", text));
        let reading = Reading::named(word)?;
        match number.split_once('/') {
            Some((over, under)) => Some(self.number(over, reading)? / self.number(under, reading)?),
            None => self.number(number, reading),
        }
    }

    fn number(&self, text: &str, reading: Reading) -> Option<f64> {
        let (id, part) = text.split_once(':').unwrap_or((text, "0"));
        let claim = self.claims.iter().find(|claim| claim.id == id)?;
        reading.of(claim, part.parse().ok()?)
    }
}
