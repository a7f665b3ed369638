//! Level bars in groups, below one another or end to end.

use maud::{Markup, html};

use super::Color;

/// Width of every picture, in its own units.
const WIDTH: f64 = 920.0;
/// Where bars begin.
const BARS_AT: f64 = 250.0;
/// Longest bar; the rest is for its figure.
const LONGEST: f64 = 540.0;
/// Longest bar if bars lie end to end, with all their figures behind.
const LONGEST_STACKED: f64 = 420.0;
/// Height of a bar.
const BAR: f64 = 17.0;
/// Between groups of bars.
const GAP: f64 = 14.0;
/// Room a letter of a label takes.
const LETTER: f64 = 8.0;

/// Groups of bars, all of one scale.
pub struct Bars {
    pub groups: Vec<BarGroup>,
}

/// Bars that belong together.
pub struct BarGroup {
    /// Written before them.
    pub name: String,
    /// From above, or from the left.
    pub bars: Vec<Bar>,
    /// End to end instead of below one another.
    pub stacked: bool,
}

pub struct Bar {
    /// What it stands for.
    pub color: Color,
    pub value: f64,
    /// Written at its end.
    pub label: String,
    /// A value to compare it with, drawn as a line across it.
    pub mark: Option<f64>,
}

impl Bars {
    /// The picture; `description` is the text for screen readers.
    pub fn draw(&self, description: &str) -> Markup {
        let height = GAP + self.groups.iter().map(BarGroup::height).sum::<f64>();
        let longest = self.groups.iter().map(BarGroup::length).fold(0.0, f64::max);
        let scale = if longest > 0.0 && longest.is_finite() {
            self.room() / longest
        } else {
            0.0
        };
        let tops = self.groups.iter().scan(GAP, |top, group| {
            let own = *top;
            *top += group.height();
            Some(own)
        });
        html! {
            svg.bars role="img" aria-label=(description) viewBox=(format!("0 0 {WIDTH} {height}")) {
                line.grid x1=(BARS_AT) x2=(BARS_AT) y1=(GAP / 2.0) y2=(height - GAP / 2.0) {}
                @for (group, top) in self.groups.iter().zip(tops) { (group.draw(top, scale)) }
            }
        }
    }

    /// Longest bar that leaves room for the longest label.
    fn room(&self) -> f64 {
        if self.groups.iter().any(|group| group.stacked) {
            return LONGEST_STACKED;
        }
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let longest = bars.map(|bar| bar.label.chars().count()).max().unwrap_or(0);
        (WIDTH - BARS_AT - longest as f64 * LETTER - 2.0 * GAP).clamp(LONGEST / 3.0, LONGEST)
    }
}

impl BarGroup {
    fn rows(&self) -> f64 {
        if self.stacked {
            1.0
        } else {
            self.bars.len().max(1) as f64
        }
    }

    fn height(&self) -> f64 {
        self.rows() * BAR + GAP
    }

    fn length(&self) -> f64 {
        let values = self.bars.iter().map(|bar| bar.value);
        if self.stacked {
            values.sum()
        } else {
            let marks = self.bars.iter().filter_map(|bar| bar.mark);
            values.chain(marks).fold(0.0, f64::max)
        }
    }

    fn draw(&self, top: f64, scale: f64) -> Markup {
        let middle = top + self.rows() * BAR / 2.0;
        let (mut left, mut row) = (BARS_AT, top);
        let mut drawn = Vec::new();
        for bar in &self.bars {
            drawn.push(bar.draw(left, row, scale));
            if self.stacked {
                left += bar.value * scale;
            } else {
                let end = left + bar.value.max(bar.mark.unwrap_or(0.0)) * scale;
                drawn.push(label(&bar.label, end + 6.0, row + BAR / 2.0, "start"));
                row += BAR;
            }
        }
        if self.stacked {
            let labels: Vec<&str> = self.bars.iter().map(|bar| bar.label.as_str()).collect();
            drawn.push(label(&labels.join(" · "), left + 6.0, middle, "start"));
        }
        html! {
            (label(&self.name, BARS_AT - 10.0, middle, "end"))
            @for part in drawn { (part) }
        }
    }
}

impl Bar {
    fn draw(&self, left: f64, row: f64, scale: f64) -> Markup {
        let width = (self.value * scale).max(0.0);
        html! {
            rect x=(tenths(left)) y=(row + 1.0) width=(tenths(width)) height=(BAR - 2.0) style=(format!("fill: {}", self.color)) {}
            @if let Some(mark) = self.mark {
                rect.across x=(tenths(left + mark * scale - 1.0)) y=(row - 1.0) width="2" height=(BAR + 2.0) {}
            }
        }
    }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn label(text: &str, x: f64, middle: f64, anchor: &str) -> Markup {
    html! { text x=(tenths(x)) y=(tenths(middle + 5.0)) text-anchor=(anchor) { (text) } }
}
