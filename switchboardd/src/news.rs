//! What hosts hear when lists change, and what children hear of the hosts: list changes go to those who see
//! another list than before, log levels to those who can log.

use std::sync::Arc;
use std::time::Duration;

use crate::board::Board;
use crate::caller::{Caller, LogLevel};
use crate::catalog::Catalog;
use crate::child::List;
use crate::digest;
use crate::mailbox::Kind;
use crate::session::Session;
use crate::subscriptions::{LISTS, SaidChanged};

/// Changes come in swarms; hosts hear of them once.
const SETTLE: Duration = Duration::from_millis(50);

/// Fingerprints of what a session was last shown or told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// If nothing was known yet, only what the child says itself is a change.
    is_known: bool,
    said: SaidChanged,
    tools: String,
    prompts: String,
    resources: String,
}

impl Seen {
    /// What a session sees now. Its suites are told of when the catalog changes.
    pub fn by(session: &Session) -> Self {
        let child = session.face.child();
        let seen = Self::at(&session.workspace().catalog(), child);
        if child.is_some() { seen } else { Self { tools: String::new(), ..seen } }
    }

    /// What is to be seen at the face of `child`, or at the aggregate.
    pub fn at(catalog: &Catalog, child: Option<&str>) -> Self {
        let Some(child) = child else {
            let offers = catalog.offers();
            let resources = offers.fingerprint(List::Resources) + &offers.fingerprint(List::Templates);
            let prompts = offers.fingerprint(List::Prompts);
            let tools = digest::hex(catalog.tools_list.as_bytes());
            return Self { is_known: true, said: [0; 3], tools, prompts, resources };
        };
        let suite = catalog.child(child);
        let pool = suite.and_then(|suite| suite.pool.as_ref());
        let said = pool.map_or([0; 3], |pool| pool.subscriptions().said_changed());
        let manifest = suite.and_then(|suite| Some((suite, suite.manifest()?)));
        let Some((suite, manifest)) = manifest else {
            let none = String::new;
            return Self { is_known: false, said, tools: none(), prompts: none(), resources: none() };
        };
        let print = |list: List| {
            let raw: Vec<&str> = manifest.offers.of(list).iter().map(|offer| offer.raw.get()).collect();
            digest::hex(raw.join("\n").as_bytes())
        };
        Self {
            is_known: true,
            said,
            tools: digest::hex(suite.exposed(&manifest.tools).as_bytes()),
            prompts: print(List::Prompts),
            resources: print(List::Resources) + &print(List::Templates),
        }
    }

    /// What a host is told that saw `before`.
    pub fn since(&self, before: &Self) -> Vec<&'static str> {
        let other =
            [self.tools != before.tools, self.prompts != before.prompts, self.resources != before.resources];
        let lists = LISTS.into_iter().enumerate();
        let told = lists.filter(
            |(at, _)| {
                if before.is_known { other[*at] } else { self.said[*at] > before.said[*at] }
            },
        );
        told.map(|(_, method)| method).collect()
    }
}

impl Board {
    /// Tells hosts of changed lists, for as long as it is polled.
    pub async fn keep_told(&self) {
        loop {
            self.nursery.news.notified().await;
            tokio::time::sleep(SETTLE).await;
            self.listens.look();
            for session in self.sessions.all() {
                let Some((before, now)) = session.sees() else { continue };
                for method in now.since(&before) {
                    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
                    session.caller.push(Kind::Changed(method), body.into_bytes());
                }
            }
        }
    }

    /// A host set its log level: children log as much as the most curious host wants, and each host hears what
    /// it asked for.
    pub fn spread_level(&self, caller: &Arc<Caller>) {
        self.level_for(Some(caller.profile().log_level));
    }

    /// A host has left: children need not log for it any more.
    pub fn lower_level(&self) {
        if self.nursery.level.lock().expect("BUG: a copy panicked").is_some() {
            self.level_for(None);
        }
    }

    fn level_for(&self, wanted: Option<LogLevel>) {
        let sessions = self.sessions.all();
        let levels = sessions.iter().map(|session| session.caller.profile().log_level);
        let level = levels.chain(wanted).min().unwrap_or_default();
        let before = self.nursery.level.lock().expect("BUG: a copy panicked").replace(level);
        if before != Some(level) {
            self.nursery.roster.all().iter().for_each(|child| child.set_level(level));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods;

    #[test]
    fn only_what_is_seen_to_change_is_told() {
        let seen = |is_known, tools: &str, prompts: &str| Seen {
            is_known,
            said: [0; 3],
            tools: tools.to_owned(),
            prompts: prompts.to_owned(),
            resources: "r".to_owned(),
        };
        let before = seen(true, "t", "p");
        assert!(before.since(&before).is_empty());
        assert_eq!(seen(true, "t", "q").since(&before), [methods::PROMPTS_CHANGED]);
        assert_eq!(seen(true, "u", "p").since(&before), [methods::TOOLS_CHANGED]);
        assert!(seen(true, "t", "p").since(&seen(false, "", "")).is_empty());
        // What the child itself calls a change is one, though nobody knows what was before.
        let said = Seen { said: [0, 0, 1], ..seen(true, "t", "p") };
        assert_eq!(said.since(&seen(false, "", "")), [methods::RESOURCES_CHANGED]);
        assert!(said.since(&before).is_empty());
    }
}
