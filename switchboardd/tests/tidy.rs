//! Rules for the code that the compiler does not check: which module may name which, where an external crate
//! may be used, that a type name means one thing, that files stay short, and that only some modules touch
//! files.
//!
//! Each rule reads the sources and fails with one line per violation: the place, and what to do about it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// The modules of the daemon, from top to bottom. A module names only modules below it.
const ORDER: &[&str] = &[
    "daemon",
    "http",
    "reload",
    "face",
    "state",
    "record",
    "changes",
    "session",
    "catalog",
    "suite",
    "pool",
    "oauth",
    "child",
    "caller",
    "search",
    "signature",
    "savings",
    "observe",
    "system",
];

/// The packages and where their sources are, lowest first. Cargo checks the arrows between them.
const PACKAGES: &[(&str, &str)] = &[
    ("switchboard-wire", "wire/src"),
    ("switchboard-mcp", "mcp/src"),
    ("switchboard-definitions", "definitions/src"),
    ("switchboard-hosts", "hosts/src"),
    ("switchboard-guard", "guard/src"),
    ("switchboardd", "src"),
    ("switchboard-ctl", "ctl/src"),
    ("switchboard", "../switchboard-shim/src"),
];

/// External crates that only some modules use, with the paths (of files or folders) that may name them.
/// Crates that are used everywhere (`serde_json`, `tokio`, `tracing`, `rustix`, `thiserror`, `bytes`, `url`,
/// `serde`) are not listed.
const CRATES: &[(&str, &[&str])] = &[
    ("axum", &["src/http"]),
    ("base64", &["mcp/src/era/headers.rs", "src/oauth/pkce.rs"]),
    ("chrono", &["ctl/src/local_time.rs"]),
    ("clap", &["ctl/src"]),
    ("clap_complete", &["ctl/src"]),
    ("clap_mangen", &["ctl/src"]),
    ("close_fds", &["src/main.rs", "../switchboard-shim/src/launch.rs"]),
    ("flate2", &["src/daemon/collector.rs"]),
    ("getrandom", &["wire/src/random.rs"]),
    ("globset", &["definitions/src/config", "definitions/src/discover", "definitions/src/tool_globs.rs"]),
    ("hmac", &["mcp/src/era/request_state.rs"]),
    ("hyper", &["src/http", "src/oauth", "src/child/remote", "ctl/src"]),
    ("jsonc_parser", &["definitions/src/document", "hosts/src/json", "ctl/src"]),
    ("listenfd", &["src/daemon/listen"]),
    ("nix", &["guard/src/process_events.rs", "src/system/environment.rs"]),
    ("notify", &["src/reload/watch"]),
    (
        "percent_encoding",
        &["src/catalog/merged_items.rs", "src/observe/telemetry/settings.rs", "src/signature/pointer.rs"],
    ),
    ("proc_pidinfo", &["guard/src/process_tree.rs", "wire/src/process"]),
    ("reqwest", &["src/child/remote", "src/oauth", "src/daemon/collector"]),
    ("rustls", &["src/child/remote"]),
    ("saphyr", &["hosts/src/yaml"]),
    ("saphyr_parser", &["hosts/src/yaml"]),
    ("secret_service", &["ctl/src/keyring"]),
    ("security_framework", &["ctl/src/keyring"]),
    ("service_binding", &["src/daemon/listen"]),
    ("sha2", &["definitions/src/digest.rs", "mcp/src/era", "src/oauth/pkce.rs"]),
    ("signal_hook", &["guard/src/main.rs"]),
    ("similar", &["ctl/src"]),
    ("strsim", &["definitions/src/document/nearest.rs"]),
    ("tiktoken", &["ctl/src/tokens.rs"]),
    ("toml_edit", &["hosts/src/toml"]),
    ("toml_parser", &["definitions/src/document/toml.rs"]),
    ("tower", &["src/http"]),
    ("tracing_subscriber", &["src/system/logging"]),
    ("unicode_segmentation", &["src/suite"]),
    ("unicode_width", &["ctl/src/output.rs"]),
];

/// How many crates of others each program may link on Linux. One more crate is one more to trust, to update
/// and to compile.
const MAX_CRATES: &[(&str, usize)] = &[("switchboardd", 150), ("switchboard-shim", 20)];

/// Type names that stand for two things, and why. At most five.
const SAME_NAME: &[(&str, &str)] = &[];

/// The longest file allowed, in lines of code without tests, comments and blank lines.
const MAX_LINES: usize = 400;

/// Calls that touch files, found by text search.
const FILE_CALLS: &[&str] = &[
    "std::fs",
    "rustix::fs",
    " File::",
    "(File::",
    "OpenOptions::",
    "DirBuilder::",
    "files::replace",
    "open_own(",
    "private_folder(",
    "folder::check",
    "check_itself(",
    "read_own(",
    "Stat::of(",
    "look_up(",
    "is_running(",
    "is_same(pid",
    "process::is_same",
    ".exists()",
    ".try_exists()",
    ".is_file()",
    ".is_dir()",
    ".is_symlink()",
    ".metadata()",
    ".symlink_metadata()",
    ".read_dir()",
    ".read_link()",
    ".canonicalize()",
];

/// Modules that touch files without `may_block()`, and why no host waits for it.
const MAY_TOUCH_FILES: &[(&str, &str)] = &[
    ("ctl/src", "commands are processes of their own"),
    ("hosts/src", "only commands use it"),
    ("guard/src/main.rs", "a guard is a process of its own"),
    ("guard/src/container.rs", "runs in a guard and within `run_blocking`"),
    ("src/daemon.rs", "before the daemon serves, and after"),
    ("src/daemon/", "before the daemon serves, and after"),
    ("definitions/src/discover", "`walk` calls `may_block()` for all of them"),
    ("definitions/src/files.rs", "its callers call `may_block()`"),
    ("definitions/src/files/state.rs", "before the daemon serves, and in commands"),
    ("src/system/logging", "opened before the daemon serves, written by a thread of its own"),
    ("src/system/programs.rs", "opened before the daemon serves"),
    ("src/system/secrets/keyring.rs", "runs within `run_blocking`"),
    ("src/child/value_resolver.rs", "runs within `run_blocking`"),
];

/// One file, parsed, without its tests.
struct Source {
    /// The path below `switchboardd`, such as `src/http/proxy.rs`.
    name: String,
    package: &'static str,
    /// Its module path within its package.
    module: Vec<String>,
    text: String,
    file: syn::File,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for (package, folder) in PACKAGES {
        let mut paths = Vec::new();
        collect(&root.join(folder), &mut paths);
        for path in paths {
            let below = path.strip_prefix(root.join(folder)).unwrap().with_extension("");
            let mut module: Vec<String> =
                below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            // Files `tests.rs` and `model.rs` are declared under `#[cfg(test)]`.
            if module.last().is_some_and(|last| last == "tests" || last == "model") {
                continue;
            }
            if module == ["lib"] {
                module.clear();
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let mut file = syn::parse_file(&text).unwrap();
            file.items.retain(|item| !is_test(item));
            let name = format!("{folder}/{}", path.strip_prefix(root.join(folder)).unwrap().display());
            all.push(Source { name, package, module, text, file });
        }
    }
    assert!(all.len() > 200, "only {} sources were found", all.len());
    all
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

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(item: &syn::Item) -> bool {
    attributes(item).iter().any(is_cfg_test)
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
}

/// Every path that a file names, with its line. A `use` tree gives one path for each of its leaves; within macros
/// the tokens are read, because their contents are not parsed.
#[derive(Default)]
struct Paths(Vec<(usize, Vec<String>)>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_cfg_test) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let line = item.span().start().line;
        self.add_tree(line, Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.0.push((path.span().start().line, parts));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
        syn::visit::visit_attribute(self, attribute);
    }
}

impl Paths {
    fn of(source: &Source) -> Vec<(usize, Vec<String>)> {
        let mut paths = Self::default();
        paths.visit_file(&source.file);
        paths.0
    }

    fn add_tree(&mut self, line: usize, mut before: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(line, before, &path.tree);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(line, before.clone(), tree));
            }
            syn::UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.0.push((line, before));
            }
            syn::UseTree::Rename(name) => {
                before.push(name.ident.to_string());
                self.0.push((line, before));
            }
            syn::UseTree::Glob(_) => self.0.push((line, before)),
        }
    }

    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let (mut parts, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.0.push((line, std::mem::take(&mut parts)));
                        line = ident.span().start().line;
                    }
                    parts.push(ident.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                proc_macro2::TokenTree::Group(group) => {
                    colons = 0;
                    self.add_tokens(group.stream());
                }
                _ => colons = 0,
            }
        }
        self.0.push((line, parts));
        self.0.retain(|(_, parts)| parts.len() > 1);
    }
}

/// The modules of one package, for resolving paths.
fn modules<'a>(sources: &'a [Source], package: &str) -> BTreeSet<&'a [String]> {
    sources.iter().filter(|source| source.package == package).map(|source| &*source.module).collect()
}

/// The module that a path in `source` resolves to, if it is in the same package.
fn target(source: &Source, path: &[String], modules: &BTreeSet<&[String]>) -> Option<Vec<String>> {
    let mut at: Vec<String> = source.module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        first => {
            at.push(first.to_owned());
            modules.contains(&*at).then_some(())?;
            rest = &rest[1..];
        }
    }
    while let Some(part) = rest.first() {
        at.push(part.clone());
        if !modules.contains(&*at) {
            at.pop();
            break;
        }
        rest = &rest[1..];
    }
    Some(at)
}

/// Every reference from one module to another of the same package: file, line, from, to.
fn references<'a>(sources: &'a [Source], package: &str) -> Vec<(&'a str, usize, Vec<String>, Vec<String>)> {
    let modules = modules(sources, package);
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.package == package) {
        for (line, path) in Paths::of(source) {
            if let Some(to) = target(source, &path, &modules)
                && to != source.module
            {
                found.push((source.name.as_str(), line, source.module.clone(), to));
            }
        }
    }
    found
}

fn check(violations: &BTreeSet<String>) {
    let mut text = String::new();
    violations.iter().for_each(|line| writeln!(text, "  {line}").unwrap());
    assert!(violations.is_empty(), "\n{text}");
}

#[test]
fn a_module_names_only_modules_below_it() {
    let sources = sources();
    let rank = |module: &str| ORDER.iter().position(|name| *name == module);
    let mut violations = BTreeSet::new();
    for (file, line, from, to) in references(&sources, "switchboardd") {
        let (Some(from), Some(to)) = (from.first(), to.first()) else { continue };
        if from == "main" || from == to {
            continue;
        }
        match (rank(from), rank(to)) {
            (Some(above), Some(below)) if above < below => {}
            (Some(_), Some(_)) => {
                violations.insert(format!(
                    "{file}:{line}: `{from}` names `{to}`, which stands above it; move what is needed down, or pass it in"
                ));
            }
            (None, _) => drop(violations.insert(format!("{file}: `{from}` has no place in ORDER"))),
            (_, None) => drop(violations.insert(format!("{file}:{line}: `{to}` has no place in ORDER"))),
        }
    }
    check(&violations);
}

#[test]
fn lib_declares_the_modules_in_their_order() {
    let sources = sources();
    let lib = sources.iter().find(|source| source.name == "src/lib.rs").unwrap();
    let declared: Vec<String> = lib
        .file
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(module) => Some(module.ident.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(declared, ORDER, "src/lib.rs declares the modules from top to bottom");
}

/// The files and folders within one folder have no cycles either. (A file may name the items of its own
/// parent.)
#[test]
fn modules_side_by_side_form_no_cycle() {
    let sources = sources();
    let mut violations = BTreeSet::new();
    for (package, _) in PACKAGES {
        let mut arrows: BTreeMap<Vec<String>, BTreeMap<String, BTreeMap<String, String>>> = BTreeMap::new();
        for (file, line, from, to) in references(&sources, package) {
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let folder = arrows.entry(from[..common].to_vec()).or_default();
                let arrow = folder.entry(from[common].clone()).or_default();
                arrow.entry(to[common].clone()).or_insert_with(|| format!("{file}:{line}"));
            }
        }
        for (folder, arrows) in arrows {
            for cycle in cycles(&arrows) {
                let mut way = String::new();
                for pair in cycle.windows(2) {
                    let place = &arrows[&pair[0]][&pair[1]];
                    write!(way, "`{}` names `{}` at {place}; ", pair[0], pair[1]).unwrap();
                }
                violations.insert(format!("{package}, folder `{}`: {way}cut one of them", folder.join("/")));
            }
        }
    }
    check(&violations);
}

/// The shortest cycle through each module that is on one.
fn cycles(arrows: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in arrows.keys() {
        if found.iter().any(|cycle| cycle.contains(start)) {
            continue;
        }
        let mut ways = vec![vec![start.clone()]];
        let mut seen = BTreeSet::new();
        'search: while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                for next in arrows.get(&way[way.len() - 1]).into_iter().flat_map(BTreeMap::keys) {
                    let mut way = way.clone();
                    way.push(next.clone());
                    if next == start {
                        found.push(way);
                        break 'search;
                    }
                    if seen.insert(next.clone()) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
    }
    found
}

#[test]
fn an_outside_crate_is_named_in_its_place_only() {
    let mut violations = BTreeSet::new();
    for source in sources() {
        for (line, path) in Paths::of(&source) {
            let Some((name, places)) = CRATES.iter().find(|(name, _)| path[0] == *name) else { continue };
            let is_module = source
                .file
                .items
                .iter()
                .any(|item| matches!(item, syn::Item::Mod(module) if module.ident == name));
            if !is_module && !places.iter().any(|place| source.name.starts_with(place)) {
                violations.insert(format!(
                    "{}:{line}: `{name}` is used in {places:?} only; call what is there",
                    source.name
                ));
            }
        }
    }
    check(&violations);
}

#[test]
fn a_type_name_means_one_thing() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for item in &source.file.items {
            let ident = match item {
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Trait(item) => &item.ident,
                syn::Item::Type(item) => &item.ident,
                _ => continue,
            };
            let place = format!("{}:{}", source.name, ident.span().start().line);
            declared.entry(ident.to_string()).or_default().push(place);
        }
    }
    let mut violations = BTreeSet::new();
    for (name, places) in &declared {
        let is_known = SAME_NAME.iter().any(|(known, _)| known == name);
        if places.len() > 1 && !is_known {
            violations
                .insert(format!("`{name}` is declared at {}; give each its own name", places.join(" and ")));
        }
    }
    for (name, _) in SAME_NAME {
        if declared.get(*name).is_none_or(|places| places.len() < 2) {
            violations.insert(format!("`{name}` stands for one thing only; take it out of SAME_NAME"));
        }
    }
    assert!(SAME_NAME.len() <= 5, "five names at most may stand for two things");
    check(&violations);
}

#[test]
fn a_file_has_one_subject() {
    let mut violations = BTreeSet::new();
    for source in sources() {
        let mut tested = BTreeSet::new();
        let whole = syn::parse_file(&source.text).unwrap();
        for item in whole.items.iter().filter(|item| is_test(item)) {
            let span = item.span();
            tested.extend(span.start().line..=span.end().line);
        }
        let is_code = |(at, line): &(usize, &str)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with("//") && !tested.contains(&(at + 1))
        };
        let lines = source.text.lines().enumerate().filter(is_code).count();
        if lines > MAX_LINES {
            violations.insert(format!("{}: {lines} lines of code; find its second subject", source.name));
        }
    }
    check(&violations);
}

/// A module that touches files calls `may_block()`, so that a debug build panics if it does so on the event loop.
#[test]
fn only_some_modules_touch_files_without_may_block() {
    let mut violations = BTreeSet::new();
    for source in sources() {
        if !matches!(source.package, "switchboardd" | "switchboard-definitions" | "switchboard-hosts") {
            continue;
        }
        let code = source.text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let touches = |line: &&str| FILE_CALLS.iter().any(|word| line.contains(word));
        let mut lines = code.lines().filter(is_code).filter(touches);
        let is_known = MAY_TOUCH_FILES.iter().any(|(place, _)| source.name.starts_with(place));
        if !is_known
            && !code.contains("may_block()")
            && let Some(line) = lines.next()
        {
            violations.insert(format!("{}: `{}` without `may_block()`", source.name, line.trim()));
        }
    }
    check(&violations);
}

/// ARCHITECTURE.md names files and tests that exist.
#[test]
fn the_architecture_document_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 200, "ARCHITECTURE.md has at most 200 lines");
    let mut files = Vec::new();
    for folder in ["switchboardd", "switchboard-shim", "proto-tests"] {
        collect(&root.join(folder), &mut files);
    }
    let exists = |name: &str| files.iter().any(|file| file.ends_with(name));
    let mut violations = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        for word in line.split('`').skip(1).step_by(2) {
            let (file, test) = match word.split_once("::") {
                Some((file, test)) if file.ends_with(".rs") => (file.to_owned(), Some(test)),
                Some((file, test)) if test.contains('_') => {
                    (format!("proto-tests/tests/{file}.rs"), Some(test))
                }
                _ if word.ends_with(".rs") => (word.to_owned(), None),
                _ => continue,
            };
            let is_there = match test {
                None => exists(&file),
                Some(test) => std::fs::read_to_string(root.join(&file))
                    .is_ok_and(|text| text.contains(&format!("fn {test}("))),
            };
            if !is_there {
                violations.insert(format!("ARCHITECTURE.md:{}: there is no `{word}`", at + 1));
            }
        }
        if let Some(module) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
            let is_module = !module.contains(['/', '.', ' ']) && line.matches('|').count() == 4;
            if is_module && !ORDER.contains(&module) && !line.contains("**") {
                violations.insert(format!("ARCHITECTURE.md:{}: there is no module `{module}`", at + 1));
            }
        }
    }
    check(&violations);
}

#[test]
fn each_program_links_few_crates() {
    let mut failures = String::new();
    for (package, most) in MAX_CRATES {
        let crates = linked_crates(package);
        assert!(
            crates.iter().any(|name| name.starts_with("rustix ")),
            "the tree of {package} was not read: {crates:?}"
        );
        if crates.len() > *most {
            let _ =
                writeln!(failures, "{package} links {} crates and may link {most}: {crates:?}", crates.len());
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// The crates of others in a program, each version once.
fn linked_crates(package: &str) -> BTreeSet<String> {
    #[expect(clippy::disallowed_methods, reason = "a test asks cargo")]
    let output = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--target", "x86_64-unknown-linux-gnu"])
        .args(["--prefix", "none", "--no-dedupe", "--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    // `name v1.2.3`, behind it `(proc-macro)` or, for a package of ours, its path.
    let words = tree.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let foreign = words.filter(|words| words.len() >= 2 && !words[0].starts_with("switchboard"));
    foreign.map(|words| words[..2].join(" ")).collect()
}
