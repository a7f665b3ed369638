//! Lines over something, each perhaps with points to compare it with.

use maud::{Markup, html};

use super::Color;
use super::axis::{Axis, short};
use super::frame::{Frame, diamond};

/// Lines over something.
pub struct Lines {
    /// What the level axis is.
    pub x_unit: String,
    /// What the upright axis is.
    pub y_unit: String,
    pub lines: Vec<Line>,
    /// Whether it is one of several below each other.
    pub low: bool,
}

/// A line, and points to compare it with.
pub struct Line {
    pub series: usize,
    /// Shown when the pointer is on it.
    pub name: String,
    pub values: Vec<(f64, f64)>,
    /// What a paper prints.
    pub points: Vec<(f64, f64)>,
}

impl Lines {
    /// The picture; `description` is the text for screen readers.
    pub fn draw(&self, description: &str) -> Markup {
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
        let up = Axis::of_values(most(|point| point.1));
        let inside = html! {
            (frame.upright_axis(&up, &self.y_unit))
            (frame.level_axis(&across, &self.x_unit))
            @for line in &self.lines { (line.draw(&frame, &across, &up)) }
        };
        frame.draw(description, &inside)
    }
}

impl Line {
    fn draw(&self, frame: &Frame, across: &Axis, up: &Axis) -> Markup {
        let color = Color::Series(self.series);
        let place = |&(x, y): &(f64, f64)| (frame.x(across, x), frame.y(up, y));
        html! {
            polyline.line style=(format!("stroke: {color}")) points=(path(self.values.iter().map(place))) {
                title { (self.name) }
            }
            @for point in &self.points {
                (diamond(place(point), Some(color), &format!("{}: paper {}", self.name, short(point.1))))
            }
        }
    }
}

fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let places: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    places.join(" ")
}

/// A small picture of lines over time, without axes: `most` is where both end, so that many can be compared.
pub fn sparkline(
    lines: &[(Color, Vec<(f64, f64)>)],
    most: (f64, f64),
    description: &str,
) -> Markup {
    const WIDTH: f64 = 220.0;
    const HEIGHT: f64 = 46.0;
    let share = |value: f64, most: f64| match value / most {
        share if share.is_finite() => share.clamp(0.0, 1.0),
        _ => 0.0,
    };
    let place = |&(time, value): &(f64, f64)| {
        let (x, y) = (share(time, most.0), share(value, most.1));
        (1.0 + x * (WIDTH - 2.0), HEIGHT - 2.0 - y * (HEIGHT - 4.0))
    };
    html! {
        svg role="img" aria-label=(description) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
            line.grid x1="0" x2=(WIDTH) y1=(HEIGHT - 1.0) y2=(HEIGHT - 1.0) {}
            @for (color, points) in lines {
                polyline.line style=(format!("stroke: {color}")) points=(path(points.iter().map(place))) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_makes_a_picture_of_numbers() {
        let values = vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)];
        for low in [false, true] {
            let line = Line {
                series: 0,
                name: "<b>".to_owned(),
                values: values.clone(),
                points: vec![(1.0, 2.0)],
            };
            let lines = Lines {
                x_unit: "s".to_owned(),
                y_unit: "\"GB/s\"".to_owned(),
                lines: vec![line],
                low,
            };
            let svg = lines.draw("a & b").into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(!svg.contains("<b>") && svg.contains("a &amp; b"));
        }
        let color = Color::Named("local");
        let svg = sparkline(&[(color, values)], (0.0, f64::NAN), "").into_string();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
