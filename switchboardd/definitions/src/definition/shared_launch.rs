//! A launch that stays part of the definition it was read from, so that a thousand pools copy none.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::{Definition, Launch};

/// The launch of a definition that can be started. Equal if the launches are, whatever their definitions.
#[derive(Debug, Clone)]
pub struct SharedLaunch(Arc<Definition>);

impl SharedLaunch {
    /// `None` if the definition can be neither started nor reached.
    pub fn of(definition: &Arc<Definition>) -> Option<Self> {
        definition.launch.is_ok().then(|| Self(definition.clone()))
    }

    /// The launch for the children of one workspace: `${workspaceFolder}` is that workspace.
    #[must_use]
    pub fn in_workspace(&self, root: &Path) -> Self {
        let launch = Ok((**self).in_workspace(root));
        Self(Arc::new(Definition { launch, ..(*self.0).clone() }))
    }
}

impl Deref for SharedLaunch {
    type Target = Launch;

    fn deref(&self) -> &Launch {
        self.0.launch.as_ref().expect("BUG: `of` checks that there is one")
    }
}

impl PartialEq for SharedLaunch {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for SharedLaunch {}

impl Hash for SharedLaunch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
