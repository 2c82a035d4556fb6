//! What the tools stand for that a host was shown. Its calls are judged by that, also if the list is another one now.

use std::collections::BTreeMap;

use crate::suite::SuitePart;

#[derive(Debug, Default)]
pub struct ShownTools {
    /// By name: the child that the tool stands for, and the part of it.
    tools: BTreeMap<String, (Box<str>, SuitePart)>,
}

impl ShownTools {
    pub(super) fn new(tools: BTreeMap<String, (Box<str>, SuitePart)>) -> Self {
        Self { tools }
    }

    /// The child that a tool stands for, and the part of it.
    pub fn get(&self, name: &str) -> Option<(&str, SuitePart)> {
        self.tools.get(name).map(|(child, part)| (&**child, *part))
    }
}
