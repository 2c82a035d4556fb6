//! `${…}` in definitions: parsed once, filled once, never by a shell. What depends on the file's location is
//! filled in when the file is read; values of the user, when a child starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A text with placeholders for values that are not known yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Piece {
    Text(String),
    /// `${workspaceFolder}` in the user's own file: this text, or the workspace that a server is started for.
    Workspace {
        text: String,
        is_name: bool,
    },
    Placeholder {
        name: String,
        default: Option<String>,
        kind: PlaceholderKind,
    },
}

/// How a placeholder is written. Both kinds get their values from a secret, the user's env file or the login
/// shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlaceholderKind {
    /// `${NAME}` or `${env:NAME}`.
    Variable,
    /// `${input:id}`, for which other hosts prompt.
    Input,
}

/// What placeholders that depend on the file's location stand for.
#[derive(Debug, Clone, Default)]
pub struct ExpansionContext {
    /// The folder of the file.
    pub folder: PathBuf,
    /// The workspace, or the folder that the globs start in.
    pub root: PathBuf,
    pub home: PathBuf,
    /// Where a plugin may store data that outlives its updates.
    pub data: PathBuf,
    /// The file is the user's own, and belongs to no workspace.
    pub personal: bool,
    /// The defaults of the file's `inputs`.
    pub inputs: BTreeMap<String, String>,
    /// Which placeholders the file's format supports.
    pub dialect: Dialect,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    All,
    /// `{env:NAME}` as well.
    OpenCode,
    /// `$NAME` as well.
    Gemini,
    /// No placeholders: all is text.
    Literal,
    /// Agent Plugins: `${PLUGIN_ROOT}` and `${PLUGIN_DATA}`; everything else is text.
    Plugin,
}

/// Names that stand for locations; as variables they need `env:`.
const PATH_NAMES: [&str; 9] = [
    "workspaceFolder",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_PLUGIN_ROOT",
    "PLUGIN_ROOT",
    "CLAUDE_PLUGIN_DATA",
    "PLUGIN_DATA",
    "userHome",
    "workspaceFolderBasename",
    "pathSeparator",
];

/// A value that is not set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingVariable {
    pub name: String,
    pub kind: PlaceholderKind,
}

/// Values for the placeholders of one definition.
pub type PlaceholderValues = BTreeMap<String, String>;

impl Template {
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self(if text.is_empty() { Vec::new() } else { vec![Piece::Text(text)] })
    }

    /// Parses a text. `Err` for a `${…}` that other hosts support and we do not.
    pub fn parse(text: &str, places: &ExpansionContext) -> Result<Self, String> {
        let mut pieces = PieceList::default();
        let braced = (places.dialect == Dialect::Gemini).then(|| with_braces(text));
        let mut rest = braced.as_deref().unwrap_or(text);
        while let Some((at, inner)) = next_placeholder(rest, places.dialect) {
            pieces.text(&rest[..at]);
            let Some(end) = inner.find('}') else {
                rest = &rest[at..];
                break;
            };
            let whole = &rest[at..rest.len() - inner.len() + end + 1];
            match parse_placeholder(&inner[..end], places)? {
                Some(Piece::Text(known)) => pieces.text(&known),
                Some(gap) => pieces.0.push(gap),
                None => pieces.text(whole),
            }
            rest = &inner[end + 1..];
        }
        pieces.text(rest);
        Ok(Self(pieces.0))
    }

    /// The text, if it has no placeholders.
    pub fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub fn placeholders(&self) -> impl Iterator<Item = (&str, PlaceholderKind)> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Placeholder { name, kind, .. } => Some((name.as_str(), *kind)),
            Piece::Text(_) | Piece::Workspace { .. } => None,
        })
    }

    /// The placeholders that have a default: name and default.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Placeholder { name, default, .. } => Some((name.as_str(), default.as_deref()?)),
            Piece::Text(_) | Piece::Workspace { .. } => None,
        })
    }

    /// Fills all placeholders; adds those without value and default to `missing`.
    pub fn fill(&self, values: &PlaceholderValues, missing: &mut BTreeSet<MissingVariable>) -> String {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) | Piece::Workspace { text, .. } => filled.push_str(text),
                // As in a shell, `:-` also replaces an empty value.
                Piece::Placeholder { name, default: Some(default), .. } => {
                    let value = values.get(name).filter(|value| !value.is_empty());
                    filled.push_str(value.unwrap_or(default));
                }
                Piece::Placeholder { name, default: None, kind } => match values.get(name) {
                    Some(value) => filled.push_str(value),
                    None => drop(missing.insert(MissingVariable { name: name.clone(), kind: *kind })),
                },
            }
        }
        filled
    }

    /// As written, but with `shown` applied to literal text and defaults.
    pub fn shown(&self, shown: impl Fn(&str) -> String) -> String {
        let one = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Workspace { text, .. } => shown(text),
            Piece::Placeholder { name, default, kind } => {
                let default = default.as_deref().map(&shown);
                Self(vec![Piece::Placeholder { name: name.clone(), default, kind: *kind }]).to_string()
            }
        };
        self.0.iter().map(one).collect()
    }

    /// With `${workspaceFolder}` filled in: the folder of a workspace, or, without one, what it stands for in
    /// the user's own file.
    #[must_use]
    pub fn in_workspace(&self, root: Option<&Path>) -> Self {
        let mut pieces = PieceList::default();
        for piece in &self.0 {
            match (piece, root) {
                (Piece::Text(text), _) | (Piece::Workspace { text, .. }, None) => pieces.text(text),
                (Piece::Workspace { is_name: false, .. }, Some(root)) => pieces.text(&root.to_string_lossy()),
                (Piece::Workspace { is_name: true, .. }, Some(root)) => {
                    pieces.text(&root.file_name().unwrap_or_default().to_string_lossy());
                }
                (gap @ Piece::Placeholder { .. }, _) => pieces.0.push(gap.clone()),
            }
        }
        Self(pieces.0)
    }

    /// Whether it starts with a placeholder.
    pub fn begins_with_placeholder(&self) -> bool {
        matches!(self.0.first(), Some(Piece::Placeholder { .. }))
    }
}

/// As written, placeholders included.
impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) | Piece::Workspace { text, .. } => f.write_str(text)?,
                Piece::Placeholder { name, default, kind } => {
                    let kind = match kind {
                        PlaceholderKind::Input => "input:",
                        // Without the prefix it would be read as a location.
                        PlaceholderKind::Variable if PATH_NAMES.contains(&name.as_str()) => "env:",
                        PlaceholderKind::Variable => "",
                    };
                    match default {
                        Some(default) => write!(f, "${{{kind}{name}:-{default}}}")?,
                        None => write!(f, "${{{kind}{name}}}")?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Serialised piece by piece, so that text that only looks like a placeholder stays text.
impl serde::Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pieces: Vec<serde_json::Value> = self
            .0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) | Piece::Workspace { text, .. } => serde_json::json!(text),
                Piece::Placeholder { name, default, kind } => {
                    serde_json::json!([name, default, *kind == PlaceholderKind::Input])
                }
            })
            .collect();
        pieces.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Template {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum StoredPiece {
            Text(String),
            Gap(String, Option<String>, bool),
        }
        let pieces = Vec::<StoredPiece>::deserialize(deserializer)?;
        let pieces = pieces.into_iter().map(|piece| match piece {
            StoredPiece::Text(text) => Piece::Text(text),
            StoredPiece::Gap(name, default, input) => Piece::Placeholder {
                name,
                default,
                kind: if input { PlaceholderKind::Input } else { PlaceholderKind::Variable },
            },
        });
        Ok(Self(pieces.collect()))
    }
}

impl std::fmt::Display for MissingVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            PlaceholderKind::Variable => write!(f, "`{}`", self.name),
            PlaceholderKind::Input => write!(f, "input `{}`", self.name),
        }
    }
}

/// Pieces with adjacent texts merged, so that equal templates compare equal.
#[derive(Default)]
struct PieceList(Vec<Piece>);

impl PieceList {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }
}

/// `$NAME` as `${NAME}`.
fn with_braces(text: &str) -> String {
    let mut braced = String::with_capacity(text.len());
    let mut parts = text.split('$');
    braced.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        match crate::env_file::is_name(name) {
            true => braced.extend(["${", name, "}", rest]),
            false => braced.extend(["$", part]),
        }
    }
    braced
}

/// The offset of the next possible placeholder, and the text after its opening brace.
fn next_placeholder(text: &str, dialect: Dialect) -> Option<(usize, &str)> {
    if dialect == Dialect::Literal {
        return None;
    }
    let plain = text.find("${").map(|at| (at, &text[at + 2..]));
    if dialect != Dialect::OpenCode {
        return plain;
    }
    let bare = ["{env:", "{file:"].into_iter().filter_map(|begin| text.find(begin));
    plain.into_iter().chain(bare.map(|at| (at, &text[at + 1..]))).min_by_key(|(at, _)| *at)
}

/// Parses the text between the braces; `None` if it is not a placeholder in this dialect.
fn parse_placeholder(inner: &str, places: &ExpansionContext) -> Result<Option<Piece>, String> {
    let path = |path: &Path| Ok(Some(Piece::Text(path.to_string_lossy().into_owned())));
    if places.dialect == Dialect::Plugin {
        return match inner {
            "PLUGIN_ROOT" => path(&places.folder),
            "PLUGIN_DATA" => path(&places.data),
            _ => Ok(None),
        };
    }
    match inner {
        "workspaceFolder" | "CLAUDE_PROJECT_DIR" | "workspaceFolderBasename" => {
            let is_name = inner == "workspaceFolderBasename";
            let root =
                if is_name { places.root.file_name().unwrap_or_default() } else { places.root.as_os_str() };
            let text = root.to_string_lossy().into_owned();
            return Ok(Some(if places.personal {
                Piece::Workspace { text, is_name }
            } else {
                Piece::Text(text)
            }));
        }
        "CLAUDE_PLUGIN_ROOT" | "PLUGIN_ROOT" => return path(&places.folder),
        "CLAUDE_PLUGIN_DATA" | "PLUGIN_DATA" => return path(&places.data),
        "userHome" | "HOME" | "env:HOME" => return path(&places.home),
        "pathSeparator" | "/" => return Ok(Some(Piece::Text("/".to_owned()))),
        _ => {}
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inner, None),
    };
    let (name, default, kind) = if let Some(id) = name.strip_prefix("input:") {
        (id, default.or_else(|| places.inputs.get(id).cloned()), PlaceholderKind::Input)
    } else {
        (name.strip_prefix("env:").unwrap_or(name), default, PlaceholderKind::Variable)
    };
    if is_name(name, kind) {
        return Ok(Some(Piece::Placeholder { name: name.to_owned(), default, kind }));
    }
    match name.split_once(':') {
        Some((word, _)) if is_name(word, PlaceholderKind::Variable) => Err(format!(
            "`${{{word}:…}}` is not supported; `${{NAME}}`, `${{NAME:-default}}`, `${{env:NAME}}` and `${{input:id}}` are"
        )),
        // Other shell syntax stays literal.
        _ => Ok(None),
    }
}

fn is_name(name: &str, kind: PlaceholderKind) -> bool {
    let more = |c: char| {
        c.is_ascii_alphanumeric() || c == '_' || (kind == PlaceholderKind::Input && matches!(c, '-' | '.'))
    };
    name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> ExpansionContext {
        ExpansionContext {
            folder: "/w/mcps/x".into(),
            root: "/w".into(),
            home: "/home/me".into(),
            data: "/state/data".into(),
            personal: false,
            inputs: [("region".to_owned(), "eu".to_owned())].into(),
            dialect: Dialect::All,
        }
    }

    /// Fills in SET=value and EMPTY=.
    fn filled(text: &str) -> Result<String, String> {
        let template = Template::parse(text, &places())?;
        let values =
            [("SET", "value"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut missing = BTreeSet::new();
        let text = template.fill(&values.into(), &mut missing);
        match missing.first() {
            None => Ok(text),
            Some(missing) => Err(format!("missing {missing}")),
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(filled(text).as_deref(), Ok(expect), "{text}");
    }

    #[test]
    fn gaps_are_filled() {
        check("plain", "plain");
        check("", "");
        check("a${SET}b${env:SET}", "avaluebvalue");
        check("${SET:-d}${UNSET:-d}${EMPTY:-d}${EMPTY}", "valuedd");
        check("${UNSET:-}", "");
        check("${UNSET:-a:-b}", "a:-b");
        check("${env:UNSET:-d}", "d");
        check("${workspaceFolder}/x", "/w/x");
        check("${CLAUDE_PROJECT_DIR}${CLAUDE_PLUGIN_ROOT}${PLUGIN_ROOT}", "/w/w/mcps/x/w/mcps/x");
        check("${userHome}${/}${workspaceFolderBasename}", "/home/me/w");
        check("${PLUGIN_DATA}", "/state/data");
        check("${input:region}", "eu");
    }

    #[test]
    fn text_that_is_no_gap_stays_literal() {
        for text in
            ["$SET", "$${", "${", "${SET", "${}", "${a b}", "${!SET}", "$(SET)", "`SET`", "${1}", "%SET%"]
        {
            check(text, text);
        }
        check("$${SET}", "$value");
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(filled("${UNSET}"), Err("missing `UNSET`".to_owned()));
        assert_eq!(filled("${input:api-key}"), Err("missing input `api-key`".to_owned()));
        assert!(filled("${file:/etc/passwd}").unwrap_err().contains("`${file:…}` is not supported"));
        assert!(filled("${command:x.y}").is_err());
    }

    #[test]
    fn values_are_not_expanded_again() {
        let template = Template::parse("${A}", &places()).unwrap();
        let values = [("A".to_owned(), "${B}".to_owned()), ("B".to_owned(), "no".to_owned())];
        assert_eq!(template.fill(&values.into(), &mut BTreeSet::new()), "${B}");
        let odd = ExpansionContext { root: "/w/${SET}".into(), ..places() };
        let template = Template::parse("${workspaceFolder}", &odd).unwrap();
        assert_eq!(template.literal(), Some("/w/${SET}"));
    }

    #[test]
    fn a_template_is_shown_as_written() {
        for text in ["${A}${A:-b}${input:i}", "${env:userHome}", "${env:PLUGIN_ROOT}/x"] {
            let template = Template::parse(text, &places()).unwrap();
            assert_eq!(template.to_string(), text);
        }
        assert_eq!(Template::parse("${env:A}", &places()).unwrap().to_string(), "${A}");
    }

    #[test]
    fn opencode_has_gaps_of_its_own() {
        let places = ExpansionContext { dialect: Dialect::OpenCode, ..places() };
        let shown = |text: &str| Template::parse(text, &places).map(|template| template.to_string());
        assert_eq!(shown(r#"{"a": {env:A}} ${B}${env:C}{env:"#).unwrap(), r#"{"a": ${A}} ${B}${C}{env:"#);
        assert!(shown("{file:~/.token}").is_err());
        check("{env:SET}", "{env:SET}");
    }

    #[test]
    fn gemini_has_gaps_without_braces() {
        let places = ExpansionContext { dialect: Dialect::Gemini, ..places() };
        let shown = |text: &str| Template::parse(text, &places).unwrap().to_string();
        assert_eq!(shown("$A/x ${B:-c}$D_1-e 5$ $1 $$F"), "${A}/x ${B:-c}${D_1}-e 5$ $1 $${F}");
        assert_eq!(shown("$HOME"), "/home/me");
    }

    #[test]
    fn some_formats_have_no_gaps() {
        let places = ExpansionContext { dialect: Dialect::Literal, ..places() };
        for text in ["${A}", "$A", "{env:A}", "${workspaceFolder}", "${file:x}"] {
            assert_eq!(Template::parse(text, &places).unwrap().literal(), Some(text));
        }
    }

    #[test]
    fn plugins_know_two_gaps_only() {
        let places = ExpansionContext { dialect: Dialect::Plugin, ..places() };
        let template = Template::parse("${PLUGIN_ROOT} ${PLUGIN_DATA} ${HOME} ${input:x} ${file:x}", &places);
        assert_eq!(template.unwrap().literal(), Some("/w/mcps/x /state/data ${HOME} ${input:x} ${file:x}"));
    }

    #[test]
    fn a_template_survives_serialisation() {
        let odd = ExpansionContext { root: "/w/${SET}".into(), ..places() };
        for text in ["", "a", "${A}", "x${A:-d}y${input:i}", "${workspaceFolder}${A}"] {
            let template = Template::parse(text, &odd).unwrap();
            let written = serde_json::to_string(&template).unwrap();
            assert_eq!(serde_json::from_str::<Template>(&written).unwrap(), template, "{written}");
        }
    }
}
