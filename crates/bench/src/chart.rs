//! Bars, drawn as SVG that goes into a page: its colours are the page's, light or dark.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use egeria_harness::{Error, Result};

/// Width of every picture, in its own units.
const WIDTH: i32 = 920;
/// Where bars begin.
const BARS_AT: i32 = 250;
/// Longest bar; the rest is for its figure.
const LONGEST: i32 = 540;
/// The same where bars lie end to end, with all their figures behind.
const LONGEST_STACKED: i32 = 420;
/// Height of a bar.
const BAR: i32 = 17;
/// Between groups of bars.
const GAP: i32 = 14;
/// Size of all text.
const TEXT: i32 = 16;
/// Room a letter of a label takes.
const LETTER: i32 = 8;

/// What a bar stands for. The page gives each a colour: see `crate::demo::html`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    /// Egeria at this machine's speed.
    Egeria,
    /// Egeria on the emulated machine.
    Emulated,
    /// tmpfs.
    Tmpfs,
    /// Bytes on the thread's own node.
    Local,
    /// Bytes on other nodes.
    Remote,
    /// One node only.
    Nova,
    /// Blocks on random nodes.
    NovaN,
    /// NThread without contention.
    Rl,
    /// NThread with contention for CPUs.
    Cpu,
    /// NThread with all contention.
    Nm,
    /// NThread.
    Full,
    /// Text.
    Text,
    /// Lines behind the bars.
    Grid,
}

impl Ink {
    /// All, for the page's style.
    pub(crate) const ALL: [Ink; 13] = [
        Ink::Egeria,
        Ink::Emulated,
        Ink::Tmpfs,
        Ink::Local,
        Ink::Remote,
        Ink::Nova,
        Ink::NovaN,
        Ink::Rl,
        Ink::Cpu,
        Ink::Nm,
        Ink::Full,
        Ink::Text,
        Ink::Grid,
    ];

    /// The name of the page's colour.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ink::Egeria => "egeria",
            Ink::Emulated => "emulated",
            Ink::Tmpfs => "tmpfs",
            Ink::Local => "local",
            Ink::Remote => "remote",
            Ink::Nova => "nova",
            Ink::NovaN => "nova-n",
            Ink::Rl => "rl",
            Ink::Cpu => "cpu",
            Ink::Nm => "nm",
            Ink::Full => "full",
            Ink::Text => "ink",
            Ink::Grid => "grid",
        }
    }

    /// A colour that stands in the SVG until the page's style replaces it.
    fn placeholder(self) -> RGBColor {
        let at = Ink::ALL.iter().position(|ink| *ink == self).unwrap_or(0) as u8;
        RGBColor(0xE6, 0xE0, 0x10 + at)
    }

    /// The placeholder as the SVG writes it.
    pub(crate) fn placeholder_text(self) -> String {
        let RGBColor(red, green, blue) = self.placeholder();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) ink: Ink,
    /// Its length; all of a chart have one scale.
    pub(crate) value: f64,
    /// Written at its end.
    pub(crate) label: String,
    /// A value to compare it with, drawn as a line across it.
    pub(crate) mark: Option<f64>,
}

/// Bars that belong together: below one another, or end to end.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) stacked: bool,
}

/// Draws groups of horizontal bars. `description` is for those who cannot see it.
pub(crate) fn draw(groups: &[Group], description: &str) -> Result<String> {
    let height = GAP + groups.iter().map(height_of).sum::<i32>();
    let longest = groups
        .iter()
        .map(length_of)
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        let room = room(groups);
        let canvas = Canvas {
            area: &area,
            scale: f64::from(room) / longest,
        };
        canvas.grid(height)?;
        let mut top = GAP;
        for group in groups {
            canvas.group(group, top)?;
            top += height_of(group);
        }
        area.present().map_err(Error::failed)?;
    }
    Ok(inline(&svg, description))
}

/// Longest bar beside the longest label.
fn room(groups: &[Group]) -> i32 {
    if groups.iter().any(|group| group.stacked) {
        return LONGEST_STACKED;
    }
    let labels = groups.iter().flat_map(|group| &group.bars);
    let longest = labels
        .map(|bar| bar.label.chars().count())
        .max()
        .unwrap_or(0);
    (WIDTH - BARS_AT - longest as i32 * LETTER - 2 * GAP).clamp(LONGEST / 3, LONGEST)
}

fn rows_of(group: &Group) -> i32 {
    if group.stacked {
        1
    } else {
        group.bars.len().max(1) as i32
    }
}

fn height_of(group: &Group) -> i32 {
    rows_of(group) * BAR + GAP
}

fn length_of(group: &Group) -> f64 {
    let values = group.bars.iter().map(|bar| bar.value);
    if group.stacked {
        values.sum()
    } else {
        let marks = group.bars.iter().filter_map(|bar| bar.mark);
        values.chain(marks).fold(0.0, f64::max)
    }
}

struct Canvas<'a, 'b> {
    area: &'a DrawingArea<SVGBackend<'b>, plotters::coord::Shift>,
    scale: f64,
}

impl Canvas<'_, '_> {
    fn grid(&self, height: i32) -> Result<()> {
        let style = Ink::Grid.placeholder().stroke_width(1);
        let line = PathElement::new(vec![(BARS_AT, GAP / 2), (BARS_AT, height - GAP / 2)], style);
        self.area.draw(&line).map_err(Error::failed)
    }

    fn group(&self, group: &Group, top: i32) -> Result<()> {
        let middle = top + rows_of(group) * BAR / 2;
        self.text(&group.name, BARS_AT - 10, middle, HPos::Right)?;
        let (mut left, mut row) = (BARS_AT, top);
        for bar in &group.bars {
            let right = left + (bar.value * self.scale).round() as i32;
            let style = bar.ink.placeholder().filled();
            let rectangle = Rectangle::new([(left, row + 1), (right, row + BAR - 1)], style);
            self.area.draw(&rectangle).map_err(Error::failed)?;
            let end = match bar.mark {
                Some(mark) => right.max(self.mark(left, row, mark)?),
                None => right,
            };
            if group.stacked {
                left = right;
            } else {
                self.text(&bar.label, end + 6, row + BAR / 2, HPos::Left)?;
                row += BAR;
            }
        }
        if group.stacked {
            let labels: Vec<&str> = group.bars.iter().map(|bar| bar.label.as_str()).collect();
            self.text(&labels.join(" · "), left + 6, middle, HPos::Left)?;
        }
        Ok(())
    }

    /// Draws the line, and says where.
    fn mark(&self, left: i32, row: i32, mark: f64) -> Result<i32> {
        let at = left + (mark * self.scale).round() as i32;
        let style = Ink::Text.placeholder().filled();
        let line = Rectangle::new([(at - 1, row - 1), (at + 1, row + BAR + 1)], style);
        self.area.draw(&line).map_err(Error::failed)?;
        Ok(at)
    }

    fn text(&self, text: &str, x: i32, y: i32, side: HPos) -> Result<()> {
        let color = Ink::Text.placeholder();
        let style = TextStyle::from(("sans-serif", TEXT).into_font())
            .color(&color)
            .pos(Pos::new(side, VPos::Center));
        self.area
            .draw(&Text::new(text.to_owned(), (x, y), style))
            .map_err(Error::failed)
    }
}

/// Width and height of a small picture over time.
const SMALL: (i32, i32) = (220, 46);

/// A line over time in a small picture: (time, value), both in their own units; all lines of a
/// picture have one scale.
pub(crate) fn draw_lines(
    lines: &[(Ink, Vec<(f64, f64)>)],
    most: (f64, f64),
    description: &str,
) -> Result<String> {
    let (width, height) = SMALL;
    let mut svg = String::new();
    {
        let size = (width as u32, height as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let grid = Ink::Grid.placeholder().stroke_width(1);
        let floor = PathElement::new(vec![(0, height - 1), (width, height - 1)], grid);
        area.draw(&floor).map_err(Error::failed)?;
        for (ink, points) in lines {
            let place = |&(time, value): &(f64, f64)| {
                let x = time / most.0.max(f64::MIN_POSITIVE) * f64::from(width - 2);
                let y = value / most.1.max(f64::MIN_POSITIVE) * f64::from(height - 4);
                (1 + x.round() as i32, height - 2 - y.round() as i32)
            };
            let style = ink.placeholder().stroke_width(2);
            let line = PathElement::new(points.iter().map(place).collect::<Vec<_>>(), style);
            area.draw(&line).map_err(Error::failed)?;
        }
        area.present().map_err(Error::failed)?;
    }
    Ok(inline(&svg, description))
}

/// The SVG without its name space, which a page does not need, and with a description.
fn inline(svg: &str, description: &str) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    let label = crate::demo::html::escape(description);
    svg[start..]
        .replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
        .replacen(
            "<svg",
            &format!("<svg role=\"img\" aria-label=\"{label}\""),
            1,
        )
}
