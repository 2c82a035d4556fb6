//! What the settings of a server forbid, as it is written: two of them can be joined, compared and stored.

use std::collections::BTreeSet;

use globset::GlobSet;
use serde::{Deserialize, Serialize};

use super::{Confirm, Expose, Split, SuiteConfig, glob_set};

/// A glob that matches every name.
const ANY: &str = "*";

/// Which tools of a server can be reached, how, and by which name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restrictions {
    /// What the rules of editors refer to; `None`: the name made of the server's.
    pub suite_name: Option<String>,
    pub split: Split,
    /// Whether tools that do not say that they are harmless need a yes.
    pub confirm_destructive: bool,
    /// Globs on the tools that need a yes.
    pub confirm: BTreeSet<String>,
    /// Lists of globs; a tool must match one of each.
    pub allow: BTreeSet<BTreeSet<String>>,
    /// Globs on the tools that cannot be reached.
    pub deny: BTreeSet<String>,
}

impl Restrictions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that one of both forbids, by the name of `other`.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.union(other).cloned().collect();
        let joined = Self {
            suite_name: other.suite_name.clone(),
            split: self.split.max(other.split),
            confirm_destructive: self.confirm_destructive || other.confirm_destructive,
            confirm: both(&self.confirm, &other.confirm),
            allow: self.allow.union(&other.allow).cloned().collect(),
            deny: both(&self.deny, &other.deny),
        };
        joined.without_the_needless()
    }

    /// Whether this permits something that `allowed` forbids, or has another name.
    pub fn loosens(&self, allowed: &Self) -> bool {
        self.and(allowed) != self.clone().without_the_needless()
    }

    fn without_the_needless(mut self) -> Self {
        for globs in [&mut self.confirm, &mut self.deny] {
            if globs.contains(ANY) {
                globs.retain(|glob| glob == ANY);
            }
        }
        if self.confirm.contains(ANY) {
            self.confirm_destructive = false;
        }
        let all = self.allow.clone();
        self.allow.retain(|globs| {
            !globs.contains(ANY) && !all.iter().any(|other| other != globs && other.is_subset(globs))
        });
        self
    }

    /// Each setting that is not the default, as it stands in a configuration.
    pub fn lines(&self) -> Vec<String> {
        self.settings()
            .into_iter()
            .zip(Self::default().settings())
            .filter(|((_, value), (_, usual))| value != usual)
            .map(|((name, value), _)| format!("`{name}`: {value}"))
            .collect()
    }

    /// How this differs from `before`.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        self.settings()
            .into_iter()
            .zip(before.settings())
            .filter(|((_, value), (_, was))| value != was)
            .map(|((name, value), (_, was))| format!("`{name}`: {was} → {value}"))
            .collect()
    }

    fn settings(&self) -> [(&'static str, String); 5] {
        let list = |globs: &BTreeSet<String>| serde_json::to_string(globs).unwrap_or_default();
        let mut confirm: Vec<String> = Vec::new();
        if self.confirm_destructive {
            confirm.push(r#""destructive""#.to_owned());
        }
        if !self.confirm.is_empty() || !self.confirm_destructive {
            confirm.push(list(&self.confirm));
        }
        let allow: Vec<String> = self.allow.iter().map(list).collect();
        let allow = if allow.is_empty() { r#"["*"]"#.to_owned() } else { allow.join(" and ") };
        let name = self.suite_name.as_deref().unwrap_or("the usual name");
        [
            ("suiteName", name.to_owned()),
            ("split", self.split.as_str().to_owned()),
            ("confirm", confirm.join(" and ")),
            ("expose.allow", allow),
            ("expose.deny", list(&self.deny)),
        ]
    }
}

impl SuiteConfig {
    /// What these settings forbid.
    pub fn restrictions(&self) -> Restrictions {
        Restrictions { suite_name: self.suite_name.clone(), ..self.written.clone() }
    }

    /// Replaces what these settings forbid.
    pub fn restrict(&mut self, restrictions: &Restrictions) {
        self.written = restrictions.clone();
        self.suite_name = restrictions.suite_name.clone();
        self.split = restrictions.split;
        self.confirm = Confirm {
            destructive: restrictions.confirm_destructive,
            named: compiled(&restrictions.confirm, true),
            of_file: None,
        };
        self.expose = Expose {
            allow: restrictions
                .allow
                .iter()
                .map(|globs| compiled(globs, false).unwrap_or_default())
                .collect(),
            deny: compiled(&restrictions.deny, true),
            of_file: None,
        };
    }
}

/// `None` for no globs. They were valid when they were read; `otherwise`: whether a damaged list matches everything.
fn compiled(globs: &BTreeSet<String>, otherwise: bool) -> Option<GlobSet> {
    let globs: Vec<String> = globs.iter().cloned().collect();
    let any = || glob_set(&[ANY.to_owned()]).ok().filter(|_| otherwise);
    (!globs.is_empty()).then(|| glob_set(&globs).ok().or_else(any)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(globs: &[&str]) -> BTreeSet<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    #[test]
    fn what_forbids_less_is_looser() {
        let open = Restrictions::default();
        let split = |split| Restrictions { split, ..Restrictions::default() };
        let confirm = |globs: &[&str]| Restrictions { confirm: set(globs), ..Restrictions::default() };
        let destructive = Restrictions { confirm_destructive: true, ..Restrictions::default() };
        let allow = |globs: &[&str]| Restrictions { allow: [set(globs)].into(), ..Restrictions::default() };
        let deny = |globs: &[&str]| Restrictions { deny: set(globs), ..Restrictions::default() };
        // Each with something that forbids more, or the same.
        let tighter = [
            (split(Split::Never), open.clone()),
            (open.clone(), split(Split::Always)),
            (open.clone(), confirm(&["a"])),
            (confirm(&["a"]), confirm(&["a", "b"])),
            (confirm(&["a"]), confirm(&["*"])),
            (destructive.clone(), confirm(&["*"])),
            (open.clone(), destructive.clone()),
            (open.clone(), allow(&["a"])),
            (open.clone(), allow(&[])),
            (allow(&["a", "b"]), allow(&["a"])),
            (open.clone(), deny(&["a"])),
            (deny(&["a"]), deny(&["a", "b"])),
            (deny(&["a"]), deny(&["*"])),
        ];
        for (loose, tight) in tighter {
            assert!(loose.loosens(&tight), "{loose:?} {tight:?}");
            assert!(!tight.loosens(&loose) && !tight.loosens(&tight) && !loose.loosens(&loose));
            let both = loose.and(&tight);
            assert!(!both.loosens(&loose) && !both.loosens(&tight), "{both:?}");
        }
        for (one, other) in
            [(confirm(&["a"]), destructive), (allow(&["a"]), allow(&["b"])), (deny(&["a"]), confirm(&["a"]))]
        {
            assert!(one.loosens(&other) && other.loosens(&one));
        }
    }

    #[test]
    fn another_name_is_looser_and_the_allowed_one_stays() {
        let named =
            |name: &str| Restrictions { suite_name: Some(name.to_owned()), ..Restrictions::default() };
        let usual = Restrictions::default();
        for (wanted, allowed) in [(named("a"), usual.clone()), (usual, named("a")), (named("b"), named("a"))]
        {
            assert!(wanted.loosens(&allowed));
            assert_eq!(wanted.and(&allowed), allowed);
        }
        assert!(!named("a").loosens(&named("a")));
        assert_eq!(named("b").changes(&Restrictions::default()), ["`suiteName`: the usual name → b"]);
    }

    #[test]
    fn both_forbid() {
        let mut config = SuiteConfig::default();
        let one = Restrictions {
            allow: [set(&["a*", "c"])].into(),
            confirm: set(&["ab"]),
            ..Restrictions::default()
        };
        let other = Restrictions {
            allow: [set(&["*b", "c"])].into(),
            deny: set(&["c"]),
            confirm_destructive: true,
            ..Restrictions::default()
        };
        config.restrict(&one.and(&other));
        let exposed = ["a", "ab", "b", "c"].map(|tool| config.expose.permits(tool));
        assert_eq!(exposed, [false, true, false, false]);
        assert!(config.confirm.asks_about("ab", || true) && config.confirm.asks_about("x", || false));
        assert!(!config.confirm.asks_about("x", || true));
        assert_eq!(config.restrictions(), one.and(&other));
        config.restrict(&Restrictions { allow: [set(&[])].into(), ..Restrictions::default() });
        assert!(!config.expose.permits("a"));
        config.restrict(&Restrictions { deny: set(&["["]), ..Restrictions::default() });
        assert!(!config.expose.permits("a"));
    }

    #[test]
    fn differences_are_written_like_settings() {
        let strict = Restrictions { confirm: set(&["rm"]), split: Split::Always, ..Restrictions::default() };
        let open = Restrictions { split: Split::Never, ..Restrictions::default() };
        assert_eq!(open.lines(), ["`split`: false"]);
        assert_eq!(open.changes(&strict), ["`split`: true → false", "`confirm`: [\"rm\"] → []"]);
        assert!(Restrictions::default().lines().is_empty());
    }

    #[test]
    fn a_record_without_restrictions_has_the_default_ones() {
        assert_eq!(serde_json::from_str::<Restrictions>("{}").unwrap(), Restrictions::default());
        let strict = Restrictions { confirm: set(&["rm"]), split: Split::Always, ..Restrictions::default() };
        let text = serde_json::to_string(&strict).unwrap();
        assert_eq!(serde_json::from_str::<Restrictions>(&text).unwrap(), strict);
    }
}
