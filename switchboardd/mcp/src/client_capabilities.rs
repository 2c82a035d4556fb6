//! Which requests a host declares that it can answer.

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::methods;

/// Which questions the host can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    pub sampling: bool,
    pub elicitation_form: bool,
    pub elicitation_url: bool,
    pub roots: bool,
}

impl ClientCapabilities {
    /// Reads the `capabilities` of an `initialize`.
    pub fn parse(capabilities: Raw<'_>) -> Self {
        let Some(capabilities) = Members::of(capabilities) else { return Self::default() };
        let elicitation = capabilities.get("elicitation").and_then(Members::of);
        let mode = |name| elicitation.as_ref().is_some_and(|modes| modes.get(name).is_some());
        Self {
            sampling: capabilities.get("sampling").is_some(),
            // Hosts of a revision without modes declare an empty object and mean forms.
            elicitation_form: elicitation.as_ref().is_some_and(|modes| modes.0.is_empty()) || mode("form"),
            elicitation_url: mode("url"),
            roots: capabilities.get("roots").is_some(),
        }
    }

    pub fn allows(self, method: &str, params: Option<Raw<'_>>) -> bool {
        match method {
            methods::SAMPLING => self.sampling,
            methods::ROOTS_LIST => self.roots,
            methods::ELICITATION => {
                let mode = params.and_then(Members::of).and_then(|params| params.text("mode"));
                if mode.as_deref() == Some("url") { self.elicitation_url } else { self.elicitation_form }
            }
            _ => false,
        }
    }
}
