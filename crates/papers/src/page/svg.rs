//! Columns and lines as SVG that stands in a page; colours are the page's.

use std::fmt::Write;

use super::html::escape;

/// Colours of series: `--s0` and on.
pub(crate) const COLORS: usize = 8;
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Columns side by side, in groups.
pub(crate) struct Columns {
    /// What the axis is.
    pub(crate) unit: String,
    /// From left to right.
    pub(crate) groups: Vec<ColumnGroup>,
}

/// Columns that belong together.
pub(crate) struct ColumnGroup {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

/// One column, and a point to compare it with.
pub(crate) struct Column {
    /// Which colour.
    pub(crate) series: usize,
    /// For a reader who points at it.
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) point: Option<f64>,
}

/// Lines over something.
pub(crate) struct Lines {
    pub(crate) x_unit: String,
    pub(crate) y_unit: String,
    pub(crate) lines: Vec<Line>,
    /// Whether it is one of several below each other.
    pub(crate) low: bool,
}

/// A line, points to compare it with.
pub(crate) struct Line {
    pub(crate) series: usize,
    pub(crate) name: String,
    pub(crate) values: Vec<(f64, f64)>,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Where a picture's parts are.
pub(crate) struct Frame {
    height: f64,
}

impl Frame {
    /// The usual picture.
    fn usual() -> Frame {
        Frame { height: 300.0 }
    }

    /// One of several below each other.
    pub(crate) fn low() -> Frame {
        Frame { height: 190.0 }
    }

    pub(crate) fn x(&self, axis: &Axis, value: f64) -> f64 {
        LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT - 8.0)
    }

    pub(crate) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.height - BOTTOM - axis.place(value) * (self.height - TOP - BOTTOM)
    }

    pub(crate) fn open(&self, description: &str) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {}\">\n",
            escape(description),
            self.height
        )
    }

    /// Figures and unit of the level axis.
    pub(crate) fn level(&self, svg: &mut String, axis: &Axis, unit: &str) {
        for tick in axis.ticks() {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.x(axis, tick),
                self.height - BOTTOM + 16.0,
                short(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
            self.height - 8.0,
            escape(unit)
        );
    }
}

/// An axis from 0.
pub(crate) struct Axis {
    to: f64,
    step: f64,
}

impl Axis {
    /// From 0, in whole steps where it can be.
    pub(crate) fn of_counts(most: f64) -> Axis {
        Axis::linear(most, &WHOLE)
    }

    fn linear(most: f64, times: &[f64]) -> Axis {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let step = step(most, times);
        Axis {
            to: (most / step - 1e-9).ceil() * step,
            step,
        }
    }

    /// Where on the axis a value stands, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let share = value / self.to;
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    fn ticks(&self) -> Vec<f64> {
        let count = (self.to / self.step).round() as usize;
        (0..=count).map(|index| index as f64 * self.step).collect()
    }
}

/// Steps of an axis, times a power of ten.
const FINE: [f64; 5] = [1.0, 2.0, 2.5, 5.0, 10.0];
/// The same for what is counted.
const WHOLE: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// The least step of which at most eight make the axis.
fn step(most: f64, times: &[f64]) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    let fits = |times: &&f64| most / (power * **times) <= 8.0;
    power * times.iter().find(fits).unwrap_or(&10.0)
}

/// A number in few letters.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 10_000.0 => format!("{value:.0}"),
        _ if size >= 100.0 || (value.fract() == 0.0 && size >= 1.0) => format!("{value:.0}"),
        _ if size >= 10.0 => trimmed(format!("{value:.1}")),
        _ if size >= 0.01 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => format!("{value:.0e}"),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Grid, figures and unit of the upright axis.
pub(crate) fn upright(svg: &mut String, frame: &Frame, axis: &Axis, unit: &str) {
    for tick in axis.ticks() {
        let y = frame.y(axis, tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 7.0,
            y + 4.0,
            short(tick)
        );
    }
    let middle = TOP + (frame.height - TOP - BOTTOM) / 2.0;
    let _ = writeln!(
        svg,
        "<text class=\"tick\" transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(unit)
    );
}

fn diamond(svg: &mut String, (x, y): (f64, f64), stroke: &str, title: &str) {
    const HALF: f64 = 5.0;
    let _ = writeln!(
        svg,
        "<path class=\"mark\"{stroke} d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\"><title>{}</title></path>",
        x - HALF,
        y - HALF,
        x + HALF,
        y + HALF,
        escape(title)
    );
}

impl Columns {
    /// The picture; `description` is for those who cannot see it.
    pub(crate) fn draw(&self, description: &str) -> String {
        let frame = Frame::usual();
        let columns = self.groups.iter().flat_map(|group| &group.columns);
        let most = columns.map(|column| column.value.max(column.point.unwrap_or(0.0)));
        let axis = Axis::linear(most.fold(0.0, f64::max), &FINE);
        let mut svg = frame.open(description);
        upright(&mut svg, &frame, &axis, &self.unit);
        let room = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        for (index, group) in self.groups.iter().enumerate() {
            group.draw(&mut svg, &frame, &axis, (LEFT + index as f64 * room, room));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl ColumnGroup {
    fn draw(&self, svg: &mut String, frame: &Frame, axis: &Axis, (left, room): (f64, f64)) {
        const MOST: f64 = 46.0;
        let count = self.columns.len().max(1) as f64;
        let width = (room * 0.82 / count).min(MOST);
        let start = left + (room - width * count) / 2.0;
        for (index, column) in self.columns.iter().enumerate() {
            column.draw(svg, frame, axis, (start + index as f64 * width, width));
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + room / 2.0,
            frame.height - BOTTOM + 20.0,
            escape(&self.name)
        );
    }
}

impl Column {
    fn draw(&self, svg: &mut String, frame: &Frame, axis: &Axis, (x, width): (f64, f64)) {
        let (y, floor) = (frame.y(axis, self.value), frame.y(axis, 0.0));
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" style=\"fill: var(--s{})\"><title>{}: model {}</title></rect>",
            x + 1.0,
            (width - 2.0).max(1.0),
            (floor - y).max(0.0),
            self.series % COLORS,
            escape(&self.name),
            short(self.value)
        );
        if let Some(point) = self.point {
            let title = format!("{}: paper {}", self.name, short(point));
            diamond(svg, (x + width / 2.0, frame.y(axis, point)), "", &title);
        }
    }
}

impl Lines {
    /// The picture; `description` is for those who cannot see it.
    pub(crate) fn draw(&self, description: &str) -> String {
        let frame = if self.low {
            Frame::low()
        } else {
            Frame::usual()
        };
        let all = || {
            let lines = self.lines.iter();
            lines.flat_map(|line| line.values.iter().chain(&line.points).copied())
        };
        let most = |of: fn((f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
        let across = Axis::of_counts(most(|point| point.0));
        let up = Axis::linear(most(|point| point.1), &FINE);
        let mut svg = frame.open(description);
        upright(&mut svg, &frame, &up, &self.y_unit);
        frame.level(&mut svg, &across, &self.x_unit);
        for line in &self.lines {
            line.draw(&mut svg, &frame, &across, &up);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Line {
    fn draw(&self, svg: &mut String, frame: &Frame, across: &Axis, up: &Axis) {
        let color = format!("stroke: var(--s{})", self.series % COLORS);
        let place = |&(x, y): &(f64, f64)| (frame.x(across, x), frame.y(up, y));
        let path: Vec<String> = self
            .values
            .iter()
            .map(place)
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"line\" style=\"{color}\" points=\"{}\"><title>{}</title></polyline>",
            path.join(" "),
            escape(&self.name)
        );
        for point in &self.points {
            let title = format!("{}: paper {}", self.name, short(point.1));
            diamond(svg, place(point), &format!(" style=\"{color}\""), &title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_largest_value_in_round_steps() {
        for most in [0.3, 1.0, 1.4, 2.52, 9.9, 10.0, 60.0, 123.4, 1e9, 7.3e10] {
            let axis = Axis::linear(most, &FINE);
            let ticks = axis.ticks();
            assert!(
                axis.to >= most * (1.0 - 1e-9) && axis.to <= most * 1.6,
                "{most}"
            );
            assert!((3..=10).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!((axis.place(axis.to) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn what_is_no_number_makes_no_picture_without_numbers() {
        let line = Line {
            series: 0,
            name: "<b>".to_owned(),
            values: vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)],
            points: vec![(1.0, 2.0)],
        };
        for low in [false, true] {
            let lines = Lines {
                x_unit: "s".to_owned(),
                y_unit: "\"GB/s\"".to_owned(),
                lines: vec![Line {
                    values: line.values.clone(),
                    points: line.points.clone(),
                    name: line.name.clone(),
                    ..line
                }],
                low,
            };
            let svg = lines.draw("a & b");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(!svg.contains("<b>") && svg.contains("a &amp; b"));
        }
    }
}
