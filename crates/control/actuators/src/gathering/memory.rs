//! What an order is carried out on.

use std::io;
use std::ops::Range;

use egeria_machine::NodeId;
use egeria_pages::areas::Area;
use egeria_pages::migrate::{Migration, Order};

/// The memory of a process.
pub(crate) trait Memory {
    /// The mappings that have pages.
    fn areas(&self) -> io::Result<Vec<Area>>;

    /// The pages of a range, with the node of each.
    fn pages(&self, range: Range<usize>, page_bytes: usize) -> io::Result<Vec<(usize, NodeId)>>;

    /// Moves some of these mappings.
    fn migrate(&self, areas: &[Area], order: &Order) -> io::Result<Migration>;
}

/// From which node to which.
pub(crate) type Pair = (NodeId, NodeId);
