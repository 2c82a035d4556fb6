//! What the tools stand for that a host was shown. Its calls are judged by that, also if the list is another one now.

use std::collections::BTreeMap;

use crate::suite::SuitePart;

#[derive(Debug, Default)]
pub struct ShownTools {
    /// By name.
    tools: BTreeMap<String, ShownTarget>,
}

/// What a tool of a list stands for.
#[derive(Debug, Clone)]
pub struct ShownTarget {
    pub child: Box<str>,
    pub part: SuitePart,
    /// The child's own tool that it is, if it is no suite.
    pub own: Option<Box<str>>,
}

impl ShownTools {
    pub(super) fn new(tools: BTreeMap<String, ShownTarget>) -> Self {
        Self { tools }
    }

    pub fn get(&self, name: &str) -> Option<&ShownTarget> {
        self.tools.get(name)
    }
}
