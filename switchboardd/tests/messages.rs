//! Every text that a user or a model reads, collected from the sources: `messages.txt` has all of them in one list, to be
//! read in one go, and `target/log-messages.txt` those of the log. The words that they use are checked.
//! `UPDATE_MESSAGES=1` renews the list.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// Who reads a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    Model,
    User,
    Log,
}

/// Sources whose texts go to a model, in results of calls and in lists.
const MODEL: &[&str] = &[
    "src/suite",
    "src/face",
    "src/signature",
    "mcp/src",
    "src/session",
    "src/catalog/listed_tools",
    "src/catalog/host_catalogs",
];

/// Of these, the sources whose texts users read, too: `switchboard call` and `status` show them.
const MODEL_AND_USER: &[&str] = &["src/suite/failure"];

/// Words that are searched for, and no messages.
const WORD_LISTS: &str = "src/search/";

const SOURCES: &[&str] = &[
    "wire/src",
    "mcp/src",
    "definitions/src",
    "hosts/src",
    "guard/src",
    "src",
    "ctl/src",
    "../switchboard-shim/src",
];

/// Words that people do not use for what is meant, and what they say.
const WORDS: &[(&str, &str)] = &[
    ("child", "server"),
    ("children", "servers"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("serves on", "keeps running"),
    ("but for", "except"),
    ("nobody can be asked here", "not a terminal; use `--yes`"),
    ("needs no word", "no approval needed"),
    ("is no JSON", "is not valid JSON"),
    ("are no JSON", "are not valid JSON"),
    ("is no folder", "is not a directory"),
    ("is no number", "is not a number"),
    ("is no name", "is not a valid name"),
    ("half within", "median"),
    ("let go after", "stopped after"),
    ("elsewhere", "in another place, or remote"),
    ("goes on", "continues, or keeps running"),
    ("go on", "continue"),
    ("at once", "immediately, or at the same time"),
    ("anew", "again"),
    ("by itself", "automatically, or alone"),
    ("by themselves", "automatically, or alone"),
    ("is told", "gets, or is notified"),
    ("are told", "get, or are notified"),
    ("hears", "is notified"),
    ("person", "user, or you"),
    ("people", "users"),
    ("became of", "happened to"),
    ("becomes of", "happens to"),
    ("came of", "the outcome of"),
    ("last words", "last lines of stderr"),
    ("unasked", "without asking"),
    ("nevertheless", "still"),
    ("in spite of", "although"),
    ("the run of", "full access to"),
    ("without a word", "without saying why"),
    ("waits for your word", "waits for your approval"),
    ("is no HTTP", "is not HTTP"),
    ("is no text", "is not text"),
    ("is no program", "is not a program"),
    ("and no socket", "and not a socket"),
    ("stands in", "is written in"),
    ("stand in", "are written in"),
    ("is taken over", "is imported"),
    ("taken over", "imported"),
    ("has its place", "belongs"),
    ("for good", "permanently"),
    ("time-out", "timeout"),
];

/// Words for texts that users read; a model reads them in the arguments of a suite.
const USER_WORDS: &[(&str, &str)] = &[
    ("subtool", "tool"),
    ("subtools", "tools"),
    ("host", "editor"),
    ("hosts", "editors"),
    ("workspace", "project"),
    ("workspaces", "projects"),
    ("somebody", "another user, or what it is"),
    ("nobody can be asked", "you can't be asked"),
    ("nobody has allowed", "you have not allowed"),
    ("Children", "Servers"),
    ("hop", "protocol of the shim"),
    ("consent", "approval"),
];

/// Texts that use such a word with reason: a part of each, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("--child", "the flag, which scripts use"),
    ("`workspaces`", "a key of the config"),
    ("`child`", "a key of the JSON that is a contract"),
    ("host: localhost", "a header of HTTP"),
    ("it needs a host and must", "the part of a URL"),
    ("`workspace`", "a value of `pool.scope`"),
    ("the host did not come back", "an error that a server gets"),
    ("scope `session` or `workspace`", "values of `pool.scope`"),
    ("hosts that know plugins", "MCP's word, in notes about other programs"),
    ("by no other host", "MCP's word, in notes about other programs"),
    ("is outside of the workspace", "a folder that may be the user's own"),
    ("a workspace's settings", "said of files, beside `suites`"),
];

struct Message {
    reader: Reader,
    place: String,
    text: String,
}

#[test]
fn messages_use_the_words_that_people_use() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut messages, mut wrong) = (Vec::new(), String::new());
    for folder in SOURCES {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        for file in files {
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let is_test_file = file.file_stem().is_some_and(|stem| stem == "tests" || stem == "model");
            if is_test_file || name.starts_with(WORD_LISTS) {
                continue;
            }
            let mut parsed = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
            parsed.items.retain(|item| !is_test(item));
            let reader =
                if MODEL.iter().any(|part| name.starts_with(part)) { Reader::Model } else { Reader::User };
            let mut texts = Texts { reader, is_log: 0, found: Vec::new(), short: Vec::new() };
            texts.visit_file(&parsed);
            let is_for_user = MODEL_AND_USER.iter().any(|part| name.starts_with(part));
            for (reader, text) in texts.found.iter().chain(&texts.short) {
                let reader = if is_for_user { Reader::User } else { *reader };
                check(&mut wrong, reader, &name, text);
            }
            messages.extend(texts.found.into_iter().map(|(reader, text)| Message {
                reader,
                place: name.clone(),
                text,
            }));
        }
    }
    for file in page_files(&root.join("src/http/page")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let is_script = file.extension().is_some_and(|kind| kind == "js");
        let mut texts = Texts { reader: Reader::User, is_log: 0, found: Vec::new(), short: Vec::new() };
        let found = if is_script { of_script(&text) } else { of_markup(&text) };
        found.iter().for_each(|text| texts.add(text));
        let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        texts.found.iter().for_each(|(reader, text)| check(&mut wrong, *reader, &place, text));
        messages.extend(texts.found.into_iter().map(|(reader, text)| Message {
            reader,
            place: place.clone(),
            text,
        }));
    }
    assert!(messages.len() > 500, "only {} texts were found", messages.len());
    let (of_log, shown): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| message.reader == Reader::Log);
    std::fs::write(root.join("../target/log-messages.txt"), list(&of_log)).unwrap();
    let (file, shown) = (root.join("tests/messages.txt"), list(&shown));
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        std::fs::write(&file, &shown).unwrap();
    }
    assert_eq!(wrong, "", "\n{wrong}");
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let is_same = kept == shown;
    assert!(
        is_same,
        "texts have changed: `UPDATE_MESSAGES=1 cargo test -p switchboardd --test messages`, then read them"
    );
}

/// Users read the log, too.
fn check(wrong: &mut String, reader: Reader, place: &str, text: &str) {
    let more = if reader == Reader::Model { &[] } else { USER_WORDS };
    for (word, better) in WORDS.iter().chain(more) {
        // A model's word that a command looks for in an answer.
        let is_pattern = text.trim() == "subtool `";
        if has_word(text, word) && !is_pattern && !EXCEPTIONS.iter().any(|(part, _)| text.contains(part)) {
            let _ = writeln!(wrong, "{place}: `{word}`, better `{better}`: {text}");
        }
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    found.sort();
}

/// The scripts and the markup of the status page.
fn page_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_text = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "js" || kind == "html");
    let mut files: Vec<PathBuf> = entries.filter(is_text).collect();
    files.sort();
    files
}

/// The strings of a script; `${…}` becomes `{}`.
fn of_script(script: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), script);
    // The last character that is no space: behind a value, `/` divides.
    let mut last = '(';
    while let Some(first) = rest.chars().next() {
        if first == '/' && "(,=:[!&|?{};".contains(last) && !rest.starts_with("//") && !rest.starts_with("/*")
        {
            rest = &rest[1 + of_string(&rest[1..], '/').1..];
            continue;
        }
        if !first.is_whitespace() {
            last = first;
        }
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else if matches!(first, '"' | '\'' | '`') {
            let (text, length) = of_string(&rest[1..], first);
            found.push(text);
            rest = &rest[1 + length..];
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// The text up to the closing quote, and its length in the source with the quote.
fn of_string(source: &str, quote: char) -> (String, usize) {
    let (mut text, mut at) = (String::new(), 0);
    while let Some(c) = source[at..].chars().next() {
        if c == quote {
            return (text, at + 1);
        }
        if quote == '`' && source[at..].starts_with("${") {
            let mut depth = 0;
            let end = source[at..].char_indices().find(|(_, c)| {
                depth += i32::from(*c == '{') - i32::from(*c == '}');
                *c == '}' && depth == 0
            });
            at += end.map_or(source.len() - at, |(end, _)| end + 1);
            text.push_str("{}");
            continue;
        }
        let skipped = if c == '\\' { c.len_utf8() } else { 0 };
        let c = source[at + skipped..].chars().next().unwrap_or(' ');
        text.push(c);
        at += skipped + c.len_utf8();
    }
    (text, source.len())
}

/// The text between the tags.
fn of_markup(markup: &str) -> Vec<String> {
    markup.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.to_owned()).collect()
}

fn is_test(item: &syn::Item) -> bool {
    matches!(item, syn::Item::Mod(module) if module.ident == "tests")
}

/// The texts of one file. Whatever has two spaces in it is taken as a text; `short` has those of two words, what is
/// counted, and the fields and targets of log lines: their words are checked, and they are not listed.
struct Texts {
    reader: Reader,
    is_log: usize,
    found: Vec<(Reader, String)>,
    short: Vec<(Reader, String)>,
}

impl Texts {
    fn add(&mut self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_text = !text.starts_with("BUG") && !text.starts_with("use ");
        match text.matches(' ').count() {
            0 if self.is_log > 0 => self.add_short(&text),
            0 => {}
            1 => self.add_short(&text),
            _ if is_text => self.found.push((self.reader(), text)),
            _ => {}
        }
    }

    fn add_short(&mut self, text: &str) {
        self.short.push((self.reader(), text.to_owned()));
    }

    fn reader(&self) -> Reader {
        if self.is_log > 0 { Reader::Log } else { self.reader }
    }

    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let is_punct = |at: usize, wanted: char| matches!(tokens.get(at), Some(proc_macro2::TokenTree::Punct(found)) if found.as_char() == wanted);
        for (at, token) in tokens.iter().enumerate() {
            if let proc_macro2::TokenTree::Ident(name) = token {
                let is_field = is_punct(at + 1, '=') && !is_punct(at + 2, '=');
                if self.is_log > 0 && is_field {
                    self.add_short(&name.to_string());
                }
                if let (true, Some(proc_macro2::TokenTree::Group(called))) =
                    (name == "count", tokens.get(at + 1))
                {
                    self.counted(called.stream());
                }
            }
            match token.clone() {
                proc_macro2::TokenTree::Group(group) => self.tokens(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.add(&text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

impl Texts {
    /// `count(2, "server")` is a text of two words.
    fn counted(&mut self, arguments: proc_macro2::TokenStream) {
        for token in arguments {
            if let proc_macro2::TokenTree::Literal(literal) = token
                && let syn::Lit::Str(text) = syn::Lit::new(literal)
            {
                self.add_short(&text.value());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let is_count =
            |path: &syn::ExprPath| path.path.segments.last().is_some_and(|last| last.ident == "count");
        if matches!(&*call.func, syn::Expr::Path(path) if is_count(path)) {
            for argument in &call.args {
                if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = argument {
                    self.add_short(&text.value());
                }
            }
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // `#[error("…")]`, and the help of clap.
        let path = attribute.path();
        if (path.is_ident("error") || path.is_ident("command") || path.is_ident("arg"))
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let name = called.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        if matches!(&*name, "assert" | "assert_eq" | "debug_assert" | "unreachable" | "panic") {
            return;
        }
        let is_log = matches!(&*name, "trace" | "debug" | "info" | "warn" | "error");
        self.is_log += usize::from(is_log);
        self.tokens(called.tokens.clone());
        self.is_log -= usize::from(is_log);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.add(&text.value());
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

/// Whether a word, or several, stand in a text by themselves. Placeholders such as `{child}` are none.
fn has_word(text: &str, word: &str) -> bool {
    let is_part =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '{'));
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back())
            && !text[at + word.len()..]
                .chars()
                .next()
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '}' | '/' | ':'))
    })
}

fn list(messages: &[&Message]) -> String {
    let mut by_reader: BTreeMap<Reader, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for message in messages {
        by_reader.entry(message.reader).or_default().entry(&message.place).or_default().insert(&message.text);
    }
    let mut list = String::new();
    for (reader, places) in by_reader {
        let heading = match reader {
            Reader::Model => "Shown to a model",
            Reader::User => "Shown to a user",
            Reader::Log => "Written to the log",
        };
        let _ = writeln!(list, "# {heading}\n");
        for (place, texts) in places {
            let _ = writeln!(list, "## {place}");
            for text in texts {
                let _ = writeln!(list, "- {text}");
            }
            list.push('\n');
        }
    }
    list
}
