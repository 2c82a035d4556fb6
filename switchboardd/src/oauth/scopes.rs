//! Which scopes a login asks for. Pure.

/// Requests a refresh token, where the authorization server supports it.
const OFFLINE: &str = "offline_access";

/// Scopes in the order they were first named.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

/// Where scopes may come from.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeSources<'a> {
    /// Set in the config for this server.
    pub set: Option<&'a [String]>,
    /// Demanded by the server when it refused a request.
    pub challenged: Option<&'a str>,
    /// Listed by the server.
    pub listed: Option<&'a [String]>,
    /// Supported by its authorization server.
    pub known: Option<&'a [String]>,
}

impl Scopes {
    /// Splits a text at spaces.
    pub fn of_text(text: &str) -> Self {
        Self::of_words(text.split_ascii_whitespace())
    }

    fn of_words<'w>(words: impl Iterator<Item = &'w str>) -> Self {
        let mut scopes = Self::default();
        words.for_each(|word| scopes.add(word));
        scopes
    }

    fn add(&mut self, word: &str) {
        if !word.is_empty() && !self.has(word) {
            self.0.push(word.to_owned());
        }
    }

    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|known| known == word)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The union.
    pub fn union(mut self, more: &Self) -> Self {
        more.iter().for_each(|word| self.add(word));
        self
    }

    pub fn contains_all(&self, all: &Self) -> bool {
        all.iter().all(|word| self.has(word))
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// The config's scopes and those demanded; without either, the server's list; else none: then the
/// authorization server decides. `before` holds scopes requested earlier, which are requested again.
pub fn choose(sources: ScopeSources<'_>, before: &Scopes) -> Scopes {
    let of = |list: &[String]| Scopes::of_words(list.iter().map(String::as_str));
    let demanded = sources.challenged.map(Scopes::of_text).filter(|scopes| !scopes.is_empty());
    let wanted = match (sources.set, demanded, sources.listed) {
        (Some(set), Some(demanded), _) => of(set).union(&demanded),
        (Some(set), None, _) => of(set),
        (None, Some(demanded), _) => demanded,
        (None, None, Some(listed)) => of(listed),
        (None, None, None) => Scopes::default(),
    };
    let mut chosen = before.clone().union(&wanted);
    // Alone, it would request no access at all.
    if !chosen.is_empty() && sources.known.is_some_and(|known| known.iter().any(|word| word == OFFLINE)) {
        chosen.add(OFFLINE);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(set: Option<&str>, demanded: Option<&str>, listed: Option<&str>, before: &str, expect: &str) {
        let words =
            |text: Option<&str>| text.map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (set, listed) = (words(set), words(listed));
        let sources = ScopeSources {
            set: set.as_deref(),
            challenged: demanded,
            listed: listed.as_deref(),
            known: None,
        };
        assert_eq!(choose(sources, &Scopes::of_text(before)).to_string(), expect);
    }

    #[test]
    fn config_and_challenge_come_before_the_list() {
        check(None, None, None, "", "");
        check(None, None, Some("l m"), "", "l m");
        check(None, Some("d"), Some("l m"), "", "d");
        check(None, Some(" "), Some("l"), "", "l");
        check(Some("s"), None, Some("l"), "", "s");
        check(Some("s"), Some("d"), Some("l"), "", "s d");
    }

    #[test]
    fn earlier_scopes_are_requested_again() {
        check(None, Some("write read"), None, "read list", "read list write");
        check(None, None, None, "read", "read");
    }

    #[test]
    fn offline_access_is_requested_where_supported() {
        let known = ["offline_access".to_owned(), "x".to_owned()];
        let sources = ScopeSources { challenged: Some("a"), known: Some(&known), ..ScopeSources::default() };
        assert_eq!(choose(sources, &Scopes::default()).to_string(), "a offline_access");
        let alone = ScopeSources { known: Some(&known), ..ScopeSources::default() };
        assert!(choose(alone, &Scopes::default()).is_empty());
    }

    #[test]
    fn scopes_are_unique_and_comparable() {
        let scopes = Scopes::of_text("a b a");
        assert_eq!(scopes.to_string(), "a b");
        assert!(scopes.contains_all(&Scopes::of_text("b")) && !scopes.contains_all(&Scopes::of_text("b c")));
    }
}
