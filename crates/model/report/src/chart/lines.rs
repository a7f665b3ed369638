//! Lines over something, each perhaps with points to compare it with.

use maud::{Markup, html};

use super::Color;
use super::axis::{Axis, short};
use super::frame::{Frame, at, diamond};
use crate::page::key;

/// Lines that are nearer to each other than this share of the picture's height look like one.
const SAME: f64 = 0.01;

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
            @for (number, line) in self.lines.iter().enumerate() {
                (line.draw(&frame, &across, &up, self.hides_another(number, &up)))
            }
        };
        frame.draw(description, &inside)
    }

    /// What the colours stand for: of the lines that have anything to show.
    pub fn keys(&self) -> Markup {
        html! {
            @for line in &self.lines {
                @if !line.values.is_empty() { (key(Color::Series(line.series), &line.name)) }
            }
        }
    }

    /// Whether a line lies on one that is drawn before it.
    fn hides_another(&self, number: usize, up: &Axis) -> bool {
        let line = &self.lines[number];
        let is_near = |(one, other): (&(f64, f64), &(f64, f64))| {
            one.0 == other.0 && (up.place(one.1) - up.place(other.1)).abs() < SAME
        };
        let lies_on = |other: &Line| {
            let pairs = || line.values.iter().zip(&other.values);
            // Most of it is enough.
            pairs().filter(|pair| is_near(*pair)).count() * 4 > pairs().count() * 3
        };
        self.lines[..number].iter().any(lies_on)
    }
}

impl Line {
    fn draw(&self, frame: &Frame, across: &Axis, up: &Axis, hides_another: bool) -> Markup {
        let color = Color::Series(self.series);
        // What is below shows between the dashes.
        let dashes = if hides_another {
            "; stroke-dasharray: 7 7"
        } else {
            ""
        };
        let place = |&(x, y): &(f64, f64)| (frame.x(across, x), frame.y(up, y));
        html! {
            @if let [only] = &self.values[..] {
                @let (x, y) = place(only);
                circle cx=(at(x)) cy=(at(y)) r="4" style=(format!("fill: {color}")) { title { (self.name) } }
            } @else {
                polyline.line style=(format!("stroke: {color}{dashes}")) points=(path(self.values.iter().map(place))) {
                    title { (self.name) }
                }
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

    #[test]
    fn a_key_stands_only_for_what_is_drawn() {
        let line = |series: usize, name: &str, values: &[(f64, f64)]| Line {
            series,
            name: name.to_owned(),
            values: values.to_vec(),
            points: Vec::new(),
        };
        let lines = Lines {
            x_unit: "pair".to_owned(),
            y_unit: "s".to_owned(),
            lines: vec![
                line(0, "one point", &[(1.0, 2.0)]),
                line(1, "below", &[(1.0, 1.0), (2.0, 1.0)]),
                line(2, "on it", &[(1.0, 1.0), (2.0, 1.001)]),
                line(3, "nothing", &[]),
            ],
            low: false,
        };
        let keys = lines.keys().into_string();
        assert!(keys.contains("one point") && !keys.contains("nothing"));
        let svg = lines.draw("").into_string();
        assert!(svg.contains("<circle"), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray").count(), 1, "{svg}");
        assert!(svg.contains("var(--s2); stroke-dasharray"), "{svg}");
    }
}
