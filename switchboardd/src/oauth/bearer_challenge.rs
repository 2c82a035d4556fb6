//! Parses the `Bearer` challenge of a `WWW-Authenticate` header.

/// What the header asks for. All of it is unverified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// The URL of the server's metadata, which names its authorization servers.
    pub resource_metadata: Option<String>,
    pub scope: Option<String>,
    pub error: Option<String>,
}

impl BearerChallenge {
    /// The first `Bearer` challenge of a header that may hold several schemes.
    pub fn parse(header: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut reader = ChallengeReader(header);
        let mut ours = false;
        while let Some(word) = reader.word() {
            let Some(value) = reader.value() else {
                if found.is_some() {
                    break;
                }
                ours = word.eq_ignore_ascii_case("bearer");
                found = ours.then(Self::default);
                continue;
            };
            if let (true, Some(bearer_challenge)) = (ours, &mut found) {
                bearer_challenge.note(word, value);
            }
        }
        found
    }

    pub fn lacks_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn note(&mut self, name: &str, value: String) {
        let slot = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        // The first value counts: a repeated parameter cannot override it.
        slot.get_or_insert(value);
    }
}

/// The unread rest of a header.
struct ChallengeReader<'h>(&'h str);

impl<'h> ChallengeReader<'h> {
    /// The next word: a scheme, or the name of a parameter.
    fn word(&mut self) -> Option<&'h str> {
        loop {
            self.0 = self.0.trim_start_matches([' ', '\t', ',']);
            let end = self.0.find([' ', '\t', ',', '=', '"']).unwrap_or(self.0.len());
            let (word, rest) = self.0.split_at(end);
            if !word.is_empty() {
                self.0 = rest;
                return Some(word);
            }
            // Skips a stray character.
            let mut rest = rest.chars();
            rest.next()?;
            self.0 = rest.as_str();
        }
    }

    /// The value of a parameter; `None` if the word was a scheme.
    fn value(&mut self) -> Option<String> {
        let rest = self.0.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        let rest = rest.trim_start_matches([' ', '\t']);
        let Some(quoted) = rest.strip_prefix('"') else {
            let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
            self.0 = &rest[end..];
            return Some(rest[..end].to_owned());
        };
        let mut value = String::new();
        let mut chars = quoted.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => value.extend(chars.next()),
                c => value.push(c),
            }
        }
        self.0 = chars.as_str();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, metadata: Option<&str>, scope: Option<&str>, error: Option<&str>) {
        let expect = BearerChallenge {
            resource_metadata: metadata.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: error.map(str::to_owned),
        };
        assert_eq!(BearerChallenge::parse(header), Some(expect), "{header}");
    }

    #[test]
    fn a_bearer_challenge_is_read() {
        check("Bearer", None, None, None);
        check(
            r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x/y?z=1""#,
            Some("https://x/y?z=1"),
            Some("a b"),
            Some("insufficient_scope"),
        );
        check("bearer RESOURCE_METADATA = https://x/y ,scope=a", Some("https://x/y"), Some("a"), None);
        check(r#"Bearer scope="a\"b,c", error=x"#, None, Some("a\"b,c"), Some("x"));
    }

    #[test]
    fn other_schemes_are_ignored() {
        assert_eq!(BearerChallenge::parse(r#"Basic realm="Bearer", scope="a""#), None);
        check(r#"Basic realm="a, b", Bearer scope="c", DPoP scope="d", algs="ES256""#, None, Some("c"), None);
        check(r#"Negotiate abc==, Bearer scope="c""#, None, Some("c"), None);
        check(r#"Bearer scope="c", Bearer scope="d""#, None, Some("c"), None);
    }

    #[test]
    fn malformed_headers_are_tolerated() {
        for header in ["", ",,,", "=", "\"", "= = =", "Basic"] {
            assert_eq!(BearerChallenge::parse(header), None, "{header}");
        }
        check(r#"Bearer scope="never closed"#, None, Some("never closed"), None);
        check(r#"Bearer scope="a\"#, None, Some("a"), None);
        check(r#"Bearer scope=a, scope=b, ="x""#, None, Some("a"), None);
    }
}
