//! What hosts hear when lists change, and what children hear of the hosts: list changes go to those who see
//! another list than before, log levels to those who can log.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::rpc;

use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::child::ListKind;
use crate::daemon_state::Daemon;
use crate::digest;
use crate::log_level::LogLevel;
use crate::mailbox::MessageKind;
use crate::session::Session;
use crate::subscriptions::{LISTS, ListChangeCounts};

/// Changes come in swarms; hosts hear of them once.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Fingerprints of what a session was last shown or told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFingerprints {
    /// If nothing was known yet, only what the child says itself is a change.
    is_known: bool,
    change_counts: ListChangeCounts,
    tools: String,
    prompts: String,
    resources: String,
}

impl ListFingerprints {
    /// What a session sees now. Its suites are told of when the catalog changes.
    pub fn of_session(session: &Session) -> Self {
        let child = session.face.child();
        let seen = Self::of_face(&session.workspace().catalog(), child);
        if child.is_some() { seen } else { Self { tools: String::new(), ..seen } }
    }

    /// What is to be seen at the face of `child`, or at the aggregate.
    pub fn of_face(catalog: &Catalog, child: Option<&str>) -> Self {
        let Some(child) = child else {
            let offers = catalog.offers();
            let resources =
                offers.fingerprint(ListKind::Resources) + &offers.fingerprint(ListKind::Templates);
            let prompts = offers.fingerprint(ListKind::Prompts);
            let tools = digest::hex(catalog.tools_list.as_bytes());
            return Self { is_known: true, change_counts: [0; 3], tools, prompts, resources };
        };
        let suite = catalog.child(child);
        let pool = suite.and_then(|suite| suite.pool.as_ref());
        let said = pool.map_or([0; 3], |pool| pool.subscriptions().list_change_counts());
        let manifest = suite.and_then(|suite| Some((suite, suite.manifest()?)));
        let Some((suite, manifest)) = manifest else {
            let none = String::new;
            return Self {
                is_known: false,
                change_counts: said,
                tools: none(),
                prompts: none(),
                resources: none(),
            };
        };
        let print = |list: ListKind| {
            let raw: Vec<&str> = manifest.offers.of(list).iter().map(|offer| offer.raw.get()).collect();
            digest::hex(raw.join("\n").as_bytes())
        };
        Self {
            is_known: true,
            change_counts: said,
            tools: digest::hex(suite.exposed(&manifest.tools).as_bytes()),
            prompts: print(ListKind::Prompts),
            resources: print(ListKind::Resources) + &print(ListKind::Templates),
        }
    }

    /// What a host is told that saw `before`.
    pub fn changed_lists(&self, before: &Self) -> Vec<&'static str> {
        let other =
            [self.tools != before.tools, self.prompts != before.prompts, self.resources != before.resources];
        let lists = LISTS.into_iter().enumerate();
        let told = lists.filter(|(at, _)| {
            if before.is_known { other[*at] } else { self.change_counts[*at] > before.change_counts[*at] }
        });
        told.map(|(_, method)| method).collect()
    }
}

impl Daemon {
    /// Tells hosts of changed lists, for as long as it is polled.
    pub async fn run_list_change_notifier(&self) {
        loop {
            self.services.list_changes.notified().await;
            tokio::time::sleep(DEBOUNCE).await;
            self.listen_requests.notify_changes();
            for session in self.sessions.all() {
                let Some((before, now)) = session.refresh_fingerprints() else { continue };
                for method in now.changed_lists(&before) {
                    let body = rpc::notification(method, None);
                    session.caller.push(MessageKind::Changed(method), body);
                }
            }
        }
    }

    /// A host set its log level: children log as much as the most curious host wants, and each host hears what
    /// it asked for.
    pub fn apply_log_level(&self, caller: &Arc<Caller>) {
        self.set_log_level(Some(caller.profile().log_level));
    }

    /// A host has left: children need not log for it any more.
    pub fn lower_log_level(&self) {
        if self.services.level.lock().expect("BUG: a copy panicked").is_some() {
            self.set_log_level(None);
        }
    }

    fn set_log_level(&self, wanted: Option<LogLevel>) {
        let sessions = self.sessions.all();
        let levels = sessions.iter().map(|session| session.caller.profile().log_level);
        let level = levels.chain(wanted).min().unwrap_or_default();
        let before = self.services.level.lock().expect("BUG: a copy panicked").replace(level);
        if before != Some(level) {
            self.services.registry.all().iter().for_each(|child| child.set_level(level));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods;

    #[test]
    fn only_what_is_seen_to_change_is_told() {
        let seen = |is_known, tools: &str, prompts: &str| ListFingerprints {
            is_known,
            change_counts: [0; 3],
            tools: tools.to_owned(),
            prompts: prompts.to_owned(),
            resources: "r".to_owned(),
        };
        let before = seen(true, "t", "p");
        assert!(before.changed_lists(&before).is_empty());
        assert_eq!(seen(true, "t", "q").changed_lists(&before), [methods::PROMPTS_CHANGED]);
        assert_eq!(seen(true, "u", "p").changed_lists(&before), [methods::TOOLS_CHANGED]);
        assert!(seen(true, "t", "p").changed_lists(&seen(false, "", "")).is_empty());
        // What the child itself calls a change is one, though nobody knows what was before.
        let said = ListFingerprints { change_counts: [0, 0, 1], ..seen(true, "t", "p") };
        assert_eq!(said.changed_lists(&seen(false, "", "")), [methods::RESOURCES_CHANGED]);
        assert!(said.changed_lists(&before).is_empty());
    }
}
