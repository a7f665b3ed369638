//! Where a picture's parts are, and its axes.

use maud::{Markup, html};

use super::axis::{Axis, short};

pub(super) const WIDTH: f64 = 960.0;
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// A place or length in a picture, as SVG writes it.
pub(super) fn at(value: f64) -> String {
    format!("{value:.1}")
}

/// A picture with axes.
pub(super) struct Frame {
    height: f64,
}

impl Frame {
    /// The usual picture.
    pub(super) fn usual() -> Frame {
        Frame { height: 300.0 }
    }

    /// One of several below each other.
    pub(super) fn low() -> Frame {
        Frame { height: 190.0 }
    }

    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT - 8.0)
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.height - BOTTOM - axis.place(value) * (self.height - TOP - BOTTOM)
    }

    /// Where names below the picture are.
    pub(super) fn names_y(&self) -> f64 {
        self.height - BOTTOM + 20.0
    }

    /// The picture; `description` is the text for screen readers.
    pub(super) fn draw(&self, description: &str, inside: &Markup) -> Markup {
        html! {
            svg role="img" aria-label=(description) viewBox=(format!("0 0 {WIDTH} {}", self.height)) { (inside) }
        }
    }

    /// Figures and unit of the level axis.
    pub(super) fn level_axis(&self, axis: &Axis, unit: &str) -> Markup {
        html! {
            @for tick in axis.ticks() {
                text.tick x=(at(self.x(axis, tick))) y=(at(self.height - BOTTOM + 16.0)) text-anchor="middle" {
                    (short(tick))
                }
            }
            text.tick x=(at(LEFT + (WIDTH - LEFT - RIGHT) / 2.0)) y=(at(self.height - 8.0)) text-anchor="middle" {
                (unit)
            }
        }
    }

    /// Grid, figures and unit of the upright axis.
    pub(super) fn upright_axis(&self, axis: &Axis, unit: &str) -> Markup {
        let middle = TOP + (self.height - TOP - BOTTOM) / 2.0;
        html! {
            @for tick in axis.ticks() {
                @let y = self.y(axis, tick);
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(y)) y2=(at(y)) {}
                text.tick x=(LEFT - 7.0) y=(at(y + 4.0)) text-anchor="end" { (short(tick)) }
            }
            text.tick transform=(format!("translate(14 {middle}) rotate(-90)")) text-anchor="middle" { (unit) }
        }
    }
}

/// A point to compare with.
pub(super) fn diamond((x, y): (f64, f64), color: Option<super::Color>, title: &str) -> Markup {
    const HALF: f64 = 5.0;
    let (left, right, above, below) = (x - HALF, x + HALF, y - HALF, y + HALF);
    let path = format!("M{left:.1} {y:.1}L{x:.1} {above:.1}L{right:.1} {y:.1}L{x:.1} {below:.1}Z");
    let style = color.map(|color| format!("stroke: {color}"));
    html! { path.mark style=[style] d=(path) { title { (title) } } }
}
