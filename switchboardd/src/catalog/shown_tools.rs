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

    /// The name under which a server's own tool is listed.
    pub fn name_of(&self, child: &str, own: &str) -> Option<&str> {
        let is_it = |target: &ShownTarget| &*target.child == child && target.own.as_deref() == Some(own);
        self.tools.iter().find(|(_, target)| is_it(target)).map(|(name, _)| name.as_str())
    }

    pub fn get(&self, name: &str) -> Option<&ShownTarget> {
        self.tools.get(name)
    }
}
