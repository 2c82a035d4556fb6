//! Which face a session shows to its host. `crate::face` answers the requests.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Face {
    Aggregate,
    /// The child of this name, with nothing renamed.
    Child(String),
}

impl Face {
    /// The child's name, if this is the face of one child.
    pub fn child(&self) -> Option<&str> {
        match self {
            Self::Aggregate => None,
            Self::Child(name) => Some(name),
        }
    }
}
