//! Recorded windows: the trace file (docs/trace.md).
