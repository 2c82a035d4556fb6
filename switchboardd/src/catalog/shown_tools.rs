//! The tools of the aggregate face. They depend on what the servers last said about themselves, so the list is built
//! again when one of them says something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_definitions::digest;
use switchboard_wire::rpc;

use super::Catalog;
use crate::pool::manifest::Manifest;
use crate::suite::{Suite, SuitePart};

/// A list of tools that hosts were shown.
#[derive(Debug, Default)]
pub struct ShownTools {
    /// The result of `tools/list`.
    pub list: String,
    pub(super) digest: Arc<str>,
    /// By name: the child that the tool stands for, and the part of it.
    tools: BTreeMap<String, (Box<str>, SuitePart)>,
}

#[derive(Debug, Default)]
pub(super) struct ToolsCache {
    /// The manifests it was built from, by suite.
    of: Vec<Option<Arc<Manifest>>>,
    shown: Option<Arc<ShownTools>>,
}

impl ShownTools {
    fn of(suites: &[Suite]) -> Self {
        let (mut entries, mut tools) = (Vec::new(), BTreeMap::new());
        for suite in suites {
            for tool in suite.shown_tools() {
                tools.insert(tool.name, (suite.child_name().into(), tool.part));
                entries.push(tool.entry);
            }
        }
        let list = rpc::tools_result(&entries.join(","));
        Self { digest: digest::hex(list.as_bytes()).into(), list, tools }
    }

    /// The child that a tool stands for, and the part of it.
    pub fn get(&self, name: &str) -> Option<(&str, SuitePart)> {
        self.tools.get(name).map(|(child, part)| (&**child, *part))
    }
}

impl Catalog {
    /// The tools as they are now, as far as known without starting a child.
    pub fn tools(&self) -> Arc<ShownTools> {
        let known: Vec<_> = self.suites.iter().map(Suite::manifest).collect();
        let mut cache = self.tools.lock().expect("BUG: a list panicked");
        let same = |(one, other): (&Option<Arc<Manifest>>, &Option<Arc<Manifest>>)| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        if let Some(shown) = &cache.shown
            && cache.of.iter().zip(&known).all(same)
        {
            return shown.clone();
        }
        let shown = Arc::new(ShownTools::of(&self.suites));
        *cache = ToolsCache { of: known, shown: Some(shown.clone()) };
        shown
    }
}
