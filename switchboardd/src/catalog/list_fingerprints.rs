//! Fingerprints of the lists that a face shows. Comparing two of them tells which lists changed.

use std::sync::Arc;

use switchboard_definitions::digest;

use super::Catalog;
use crate::caller::subscriptions::{LISTS, ListChangeCounts};
use crate::child::ListKind;

/// Fingerprints of the lists that a host was last shown or notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFingerprints {
    /// False if nothing was known about the child yet. Then only its own notifications count as changes.
    is_known: bool,
    change_counts: ListChangeCounts,
    tools: Arc<str>,
    /// `None` if prompts and resources are not compared.
    offers: Option<OfferFingerprints>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OfferFingerprints {
    prompts: String,
    resources: String,
}

impl ListFingerprints {
    /// Compares only the tools of the aggregate face, not prompts and resources.
    pub fn of_tools(catalog: &Catalog) -> Self {
        Self { is_known: true, change_counts: [0; 3], tools: catalog.tools().digest.clone(), offers: None }
    }

    /// The lists on the face of `child`, or on the aggregate face.
    pub fn of_face(catalog: &Catalog, child: Option<&str>) -> Self {
        let Some(child) = child else {
            let offers = catalog.offers();
            let resources =
                offers.fingerprint(ListKind::Resources) + &offers.fingerprint(ListKind::Templates);
            let prompts = offers.fingerprint(ListKind::Prompts);
            return Self {
                offers: Some(OfferFingerprints { prompts, resources }),
                ..Self::of_tools(catalog)
            };
        };
        let suite = catalog.child(child);
        let pool = suite.and_then(|suite| suite.pool.as_ref());
        let change_counts = pool.map_or([0; 3], |pool| pool.subscriptions().list_change_counts());
        let manifest = suite.and_then(|suite| Some((suite, suite.manifest()?)));
        let Some((suite, manifest)) = manifest else {
            let offers = Some(OfferFingerprints::default());
            return Self { is_known: false, change_counts, tools: "".into(), offers };
        };
        let print = |list: ListKind| {
            let raw: Vec<&str> = manifest.offers.of(list).iter().map(|offer| offer.raw.get()).collect();
            digest::hex(raw.join("\n").as_bytes())
        };
        let offers = OfferFingerprints {
            prompts: print(ListKind::Prompts),
            resources: print(ListKind::Resources) + &print(ListKind::Templates),
        };
        Self {
            is_known: true,
            change_counts,
            tools: digest::hex(suite.exposed(&manifest.tools).as_bytes()).into(),
            offers: Some(offers),
        }
    }

    /// Whether prompts and resources are compared.
    pub fn has_offers(&self) -> bool {
        self.offers.is_some()
    }

    /// Adds the prompts and resources of `now`. The fingerprint of the tools stays, so a change of the tools
    /// that the host was not notified of is still found.
    pub fn with_offers_of(self, now: Self) -> Self {
        Self { offers: now.offers, ..self }
    }

    /// Current fingerprints of the lists that `self` covers.
    pub fn refreshed(&self, catalog: &Catalog, child: Option<&str>) -> Self {
        if child.is_none() && !self.has_offers() {
            return Self::of_tools(catalog);
        }
        Self::of_face(catalog, child)
    }

    /// The notifications for a host that saw `before`.
    pub fn changed_lists(&self, before: &Self) -> Vec<&'static str> {
        let other = match (&self.offers, &before.offers) {
            (Some(now), Some(before)) => (now.prompts != before.prompts, now.resources != before.resources),
            _ => (false, false),
        };
        let other = [self.tools != before.tools, other.0, other.1];
        let lists = LISTS.into_iter().enumerate();
        let told = lists.filter(|(at, _)| {
            if before.is_known { other[*at] } else { self.change_counts[*at] > before.change_counts[*at] }
        });
        told.map(|(_, method)| method).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_mcp::methods;

    fn seen(is_known: bool, tools: &str, prompts: &str) -> ListFingerprints {
        let offers = OfferFingerprints { prompts: prompts.to_owned(), resources: "r".to_owned() };
        ListFingerprints { is_known, change_counts: [0; 3], tools: tools.into(), offers: Some(offers) }
    }

    #[test]
    fn only_visible_changes_are_notified() {
        let before = seen(true, "t", "p");
        assert!(before.changed_lists(&before).is_empty());
        assert_eq!(seen(true, "t", "q").changed_lists(&before), [methods::PROMPTS_CHANGED]);
        assert_eq!(seen(true, "u", "p").changed_lists(&before), [methods::TOOLS_CHANGED]);
        assert!(seen(true, "t", "p").changed_lists(&seen(false, "", "")).is_empty());
        // A change that the child reports counts even if the list before is unknown.
        let said = ListFingerprints { change_counts: [0, 0, 1], ..seen(true, "t", "p") };
        assert_eq!(said.changed_lists(&seen(false, "", "")), [methods::RESOURCES_CHANGED]);
        assert!(said.changed_lists(&before).is_empty());
    }

    #[test]
    fn prompts_are_compared_once_the_host_was_shown_them() {
        let before = ListFingerprints { offers: None, ..seen(true, "t", "p") };
        let now = seen(true, "u", "q");
        assert_eq!(now.changed_lists(&before), [methods::TOOLS_CHANGED]);
        // The host is shown prompts before it is notified that the tools changed.
        let shown = before.with_offers_of(now.clone());
        assert_eq!(now.changed_lists(&shown), [methods::TOOLS_CHANGED]);
        assert_eq!(seen(true, "t", "p").changed_lists(&shown), [methods::PROMPTS_CHANGED]);
    }
}
