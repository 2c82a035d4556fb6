//! What is said of a server that the user denied: the daemon does not know it.

use switchboard_definitions::trust::TrustStatus;

use super::find;
use crate::args::Args;
use crate::ask::AskError;
use crate::local_config::LocalConfig;
use crate::shell_word::shell_word;

/// The refusal of a server that the user denied; without one, the refusal of the daemon, which does not know it.
pub(crate) fn denied_or(args: &Args, suite: &str, refused: AskError) -> AskError {
    if !matches!(refused, AskError::Refused(_)) {
        return refused;
    }
    let Some(local) = LocalConfig::open_if_possible(args) else { return refused };
    let project = local.here(args).map(|root| local.workspace(&root));
    let layers = std::iter::once((&local.personal, true)).chain(project.as_ref().map(|layer| (layer, false)));
    let found = layers.into_iter().find_map(|(layer, own)| find(layer, own, suite));
    match found.filter(|found| found.trust_status == TrustStatus::Denied) {
        Some(found) => AskError::Held(format!(
            "you denied server `{}`, so it does not run; `switchboard allow {}` takes that back",
            found.definition.name,
            shell_word(&found.definition.name)
        )),
        None => refused,
    }
}
