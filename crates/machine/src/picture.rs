//! The machine as a text drawing.
impl crate::Machine {
    /// A drawing of the nodes, at most 100 columns wide.
    pub fn picture(&self) -> String {
        String::new()
    }
}
