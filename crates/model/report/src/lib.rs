//! Pages of figures and tables, each one file that needs nothing but itself: no scripts, no fonts, no addresses.
//!
//! - [`page`]: the frame around a page's body, and the pieces that pages share.
//! - [`table`]: tables and their cells.
//! - [`chart`]: columns, lines, bands and bars as SVG, in the page's colours.
//! - [`what_if`]: the page of `egeria sim`.
//!
//! Bodies are templates of maud, which escapes all text.

#![forbid(unsafe_code)]

pub mod chart;
pub mod page;
pub mod table;
pub mod what_if;
