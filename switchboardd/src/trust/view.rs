//! What a person is shown before they allow something: all of what would be executed, nothing hidden,
//! no value of a variable or header.

use std::collections::BTreeMap;
use std::path::Path;

use super::warnings::warnings;
use crate::definition::{Definition, Launch, Reach, Remote, Transport};
use crate::expand::Template;
use crate::hosts::mask::masked_words;
use crate::visible::{is_hidden, visible};

/// What is known of a definition when somebody is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub definition: &'a Definition,
    /// What would be executed.
    pub reach: &'a Reach,
    /// The program that was found for it, or why none was.
    pub program: Option<Result<&'a Path, &'a str>>,
    /// What was allowed last.
    pub before: Option<&'a Reach>,
    /// The workspace.
    pub root: &'a Path,
    /// Whether it is only looked at: then what looks like a secret in a command is left out. Who is asked sees all.
    pub is_masked: bool,
}

impl View<'_> {
    /// Line by line.
    pub fn lines(&self) -> Vec<String> {
        let first = format!(
            "{}  ({})",
            visible(&self.definition.name),
            visible(&self.definition.file.display().to_string())
        );
        let facts = self.facts().into_iter().map(|(what, text)| format!("  {what:9} {text}"));
        std::iter::once(first).chain(facts).collect()
    }

    /// What there is to know, and under which word.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let line = if self.is_masked { masked_line } else { command_line };
        for (what, text) in facts(self.reach, line) {
            all.push((what, text));
            if what == "runs" {
                match self.program {
                    Some(Ok(program)) => {
                        all.push(("program", visible(&program.display().to_string()).into_owned()));
                    }
                    Some(Err(why)) => all.push(("program", why.to_owned())),
                    None => {}
                }
            }
        }
        let program = self.program.and_then(Result::ok);
        all.extend(warnings(self.reach, program, self.root).into_iter().map(|warning| ("warning", warning)));
        if let Some(before) = self.before {
            all.extend(difference(before, self.reach, line).into_iter().map(|line| ("changed", line)));
        }
        all
    }
}

/// How a command is written.
type Line = fn(&Launch) -> String;

/// The command line, so that it is clear where each argument ends.
pub fn command_line(launch: &Launch) -> String {
    let words = std::iter::once(&launch.cmd).chain(&launch.args);
    words.map(|word| quoted(&word.to_string())).collect::<Vec<_>>().join(" ")
}

/// The same without what looks like a secret.
fn masked_line(launch: &Launch) -> String {
    let words: Vec<String> =
        std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect();
    masked_words(&words).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// What would be executed or reached, in a few words.
pub fn in_short(reach: &Reach) -> String {
    match reach {
        Reach::Process(launch) => command_line(launch),
        Reach::Remote(remote) => shown_url(&remote.url),
    }
}

/// The same where it is only mentioned, without what looks like a secret.
pub fn mentioned(reach: &Reach) -> String {
    match reach {
        Reach::Process(launch) => masked_line(launch),
        Reach::Remote(remote) => shown_url(&remote.url),
    }
}

/// Each on a line of its own, and what it is.
fn facts(reach: &Reach, line: Line) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    match reach {
        Reach::Process(launch) => {
            facts.push(("runs", line(launch)));
            facts.push((
                "in",
                visible(&launch.base.join(launch.cwd.to_string()).display().to_string()).into_owned(),
            ));
            let mut add = |what, names: Vec<String>| {
                if !names.is_empty() {
                    facts.push((what, names.join(", ")));
                }
            };
            let shown = |name: &String| visible(name).into_owned();
            let sets = launch.env.iter().filter(|(_, value)| value.is_some());
            add("sets", sets.map(|(name, _)| shown(name)).collect());
            let unsets = launch.env.iter().filter(|(_, value)| value.is_none());
            add("unsets", unsets.map(|(name, _)| shown(name)).collect());
            let path =
                launch.env_file_path.iter().map(|path| visible(&path.display().to_string()).into_owned());
            add("env file", path.chain(launch.env_file.keys().map(shown)).collect());
            add("is given", launch.gaps().iter().map(shown).collect());
        }
        Reach::Remote(remote) => {
            let kind = if remote.transport == Transport::Sse { "sse" } else { "http" };
            facts.push(("reaches", format!("{} ({kind})", shown_url(&remote.url))));
            let names: Vec<_> = remote.headers.keys().map(|name| visible(name).into_owned()).collect();
            if !names.is_empty() {
                facts.push(("headers", names.join(", ")));
            }
            let given: Vec<_> = remote.gaps().iter().map(|name| visible(name).into_owned()).collect();
            if !given.is_empty() {
                facts.push(("is given", given.join(", ")));
            }
        }
    }
    facts
}

/// Without what may be a password in it, or a key behind the `?`.
pub fn shown_url(url: &Template) -> String {
    let url = url.to_string();
    let (url, query) = url.split_once('?').map_or((url.as_str(), ""), |(url, _)| (url, "?…"));
    let url = match url.split_once("://") {
        Some((scheme, rest)) => {
            // A host ends at the first of these; what comes after an `@` behind them is no host.
            let (host, path) = rest.find(['/', '\\', '#']).map_or((rest, ""), |at| rest.split_at(at));
            let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("…@{host}"));
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    };
    visible(&format!("{url}{query}")).into_owned()
}

/// What is other than it was, values of variables and headers left out.
fn difference(before: &Reach, after: &Reach, line: Line) -> Vec<String> {
    match (before, after) {
        (Reach::Process(before), Reach::Process(after)) => process_difference(before, after, line),
        (Reach::Remote(before), Reach::Remote(after)) => remote_difference(before, after),
        (Reach::Process(before), _) => vec![format!("was {}", line(before))],
        (Reach::Remote(before), _) => vec![format!("was {}", shown_url(&before.url))],
    }
}

fn process_difference(before: &Launch, after: &Launch, line: Line) -> Vec<String> {
    let mut lines = Vec::new();
    if (&before.cmd, &before.args) != (&after.cmd, &after.args) {
        lines.push(format!("ran    {}", line(before)));
        lines.push(format!("runs   {}", line(after)));
    }
    if (&before.cwd, &before.base) != (&after.cwd, &after.base) {
        lines.push(format!(
            "was in {}",
            visible(&before.base.join(before.cwd.to_string()).display().to_string())
        ));
    }
    named_difference("variable", &before.env, &after.env, &mut lines);
    if before.env_file_path != after.env_file_path {
        lines.push("another env file".to_owned());
    }
    named_difference("env file", &before.env_file, &after.env_file, &mut lines);
    if before.pass_env != after.pass_env {
        let names: Vec<_> =
            before.pass_env.symmetric_difference(&after.pass_env).map(|name| visible(name)).collect();
        lines.push(format!("passed variables: {}", names.join(", ")));
    }
    lines
}

fn remote_difference(before: &Remote, after: &Remote) -> Vec<String> {
    let mut lines = Vec::new();
    if (&before.url, before.transport) != (&after.url, after.transport) {
        lines.push(format!("was {}", shown_url(&before.url)));
    }
    named_difference("header", &before.headers, &after.headers, &mut lines);
    lines
}

fn named_difference<V: PartialEq>(
    what: &str,
    before: &BTreeMap<String, V>,
    after: &BTreeMap<String, V>,
    lines: &mut Vec<String>,
) {
    for (name, value) in after {
        match before.get(name) {
            None => lines.push(format!("new {what} {}", visible(name))),
            Some(old) if old != value => lines.push(format!("another value for {what} {}", visible(name))),
            Some(_) => {}
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        lines.push(format!("no more {what} {}", visible(name)));
    }
}

/// As a shell would have it, so that words are told apart; for reading only.
fn quoted(word: &str) -> String {
    // Some letters have no shape.
    let plain = |c: char| (c.is_alphanumeric() && !is_hidden(c)) || "-_=+:,./@%^~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", visible(&word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(argv: &[&str], env: &[(&str, &str)]) -> Reach {
        Reach::Process(Launch {
            cmd: Template::text(argv[0]),
            args: argv[1..].iter().map(|arg| Template::text(*arg)).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), Some(Template::text(*value)))).collect(),
            cwd: Template::text("/w"),
            base: "/".into(),
            ..Launch::default()
        })
    }

    fn shown(reach: &Reach, before: Option<&Reach>) -> String {
        let definition = Definition {
            name: "x".to_owned(),
            description: Some("never shown".to_owned()),
            reach: Ok(reach.clone()),
            timeout: None,
            file: "/w/.mcp.json".into(),
            at: None,
        };
        let program = Some(Ok(Path::new(if before.is_some() { "/w/x" } else { "/bin/x" })));
        View { definition: &definition, reach, program, before, root: Path::new("/w"), is_masked: false }
            .lines()
            .join("\n")
    }

    #[test]
    fn all_of_it_is_shown_and_no_value() {
        let reach = launch(&["x", "", "a b", "it's", "\u{202e}evil"], &[("TOKEN", "s3cret")]);
        let text = shown(&reach, None);
        assert!(text.contains(r"x '' 'a b' 'it'\''s' '\u{202e}evil'"), "{text}");
        assert!(shown(&launch(&["x", "a\u{3164}b"], &[]), None).contains(r"x 'a\u{3164}b'"));
        assert!(text.contains("program   /bin/x") && text.contains("sets      TOKEN"), "{text}");
        assert!(!text.contains("s3cret") && !text.contains("never shown"), "{text}");
        let url = Reach::Remote(Remote {
            transport: Transport::Http,
            url: Template::text("https://me:pass@h/p?key=k3y"),
            headers: [("authorization".to_owned(), Template::text("Bearer t0p"))].into(),
        });
        let text = shown(&url, None);
        assert!(text.contains("https://…@h/p?…") && text.contains("authorization"), "{text}");
        assert!(!text.contains("pass") && !text.contains("k3y") && !text.contains("t0p"), "{text}");
    }

    #[test]
    fn a_host_is_where_a_url_really_leads() {
        for url in [r"https://evil.example\@github.com/mcp", "https://evil.example#@github.com/mcp"] {
            let shown = shown_url(&Template::text(url));
            assert!(shown.starts_with("https://evil.example"), "{url}: {shown}");
        }
    }

    #[test]
    fn a_difference_names_what_changed() {
        let before = launch(&["x", "1"], &[("A", "1"), ("B", "1")]);
        let after = launch(&["x", "2"], &[("A", "2"), ("C", "1")]);
        let text = shown(&after, Some(&before));
        for part in [
            "ran    x 1",
            "runs   x 2",
            "another value for variable A",
            "new variable C",
            "no more variable B",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!shown(&after, Some(&after)).contains("changed   "));
        assert!(text.contains("its program is a file of the workspace"), "{text}");
    }
}
