//! A machine description from the figures: memories, queues, links.

pub(crate) mod describe;
pub(crate) mod interconnect;
pub(crate) mod queues;
pub(crate) mod ways;
