//! A JSON or TOML file written by a user; JSON is read with comments and trailing commas. Every value knows its position, so
//! that problems can be reported as `file:line:column`.

mod nearest;
mod problem;
mod strict;
mod text;
mod toml;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

pub use nearest::nearest;
use problem::MAX_LINE;
pub use problem::Problem;
use strict::{deep, duplicate, too_deep};
pub use text::{ReadTextError, read_text};
pub use toml::parse as parse_toml;

/// In bytes. No string that a user writes is longer.
const MAX_TEXT: usize = 64 * 1024;
/// More problems than a user reads, and limits on what a message shows of names and paths.
const MAX_PROBLEMS: usize = 64;
const MAX_NAME: usize = 64;
const MAX_PATH: usize = 256;

/// JSON with comments and trailing commas, and no other extensions.
pub const DIALECT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The result of reading a document: the value, the problems, and notes on what is valid but may surprise.
#[derive(Debug)]
pub struct VisitResult<T> {
    pub made: Option<T>,
    pub problems: Vec<Problem>,
    pub notes: Vec<Problem>,
}

#[derive(Debug)]
pub struct Document {
    pub file: PathBuf,
    text: String,
}

impl Document {
    /// `Ok(None)` if there is no such file. With `within`, a file whose real path is outside of it is not
    /// read.
    pub fn read(file: &Path, within: Option<&Path>) -> Result<Option<Self>, Problem> {
        let text = match read_text(file, within) {
            Ok(text) => text,
            Err(ReadTextError::Absent) => return Ok(None),
            Err(ReadTextError::Refused(why)) => return Err(Problem::of(file, why)),
        };
        Ok(Some(Self { file: file.to_owned(), text }))
    }

    pub fn from_text(file: &Path, text: &str) -> Self {
        Self { file: file.to_owned(), text: text.to_owned() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the document and passes the root object to `read`.
    pub fn visit<T>(&self, read: impl FnOnce(&Fields<'_>) -> T) -> VisitResult<T> {
        let text = self.text.trim_start_matches('\u{feff}');
        let failed = |offset, message: String| VisitResult {
            made: None,
            problems: vec![self.problem(text, offset, message)],
            notes: Vec::new(),
        };
        let is_toml = self.file.extension().is_some_and(|kind| kind == "toml");
        let parsed = match is_toml {
            // An editor that is just writing the file has emptied it.
            true if text.trim().is_empty() => Ok(None),
            true => toml::parse(text).map(Some),
            false => parse_to_ast(text, &CollectOptions::default(), &DIALECT)
                .map(|parsed| parsed.value)
                .map_err(|error| (error.range().start, format!("not valid JSON: {}", error.kind()))),
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err((offset, why)) => return failed(offset, why),
        };
        if let Some(at) = parsed.as_ref().and_then(|value| too_deep(value, 1)) {
            return failed(at, deep());
        }
        // With duplicate members, a reviewer may see one and a program may use the other.
        if let Some((twice, path)) = parsed.as_ref().and_then(|value| duplicate(value, "")) {
            return failed(twice, format!("`{path}` appears twice"));
        }
        let (problems, notes) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let mistakes = Cell::new(0);
        let reader =
            DocumentReader { document: self, text, problems: &problems, notes: &notes, mistakes: &mistakes };
        let made = match &parsed {
            Some(Value::Object(object)) => {
                Some(read(&reader.fields(&object.properties, object.range, String::new())))
            }
            Some(other) => {
                reader.complain(other.range().start, "must be a JSON object".to_owned());
                None
            }
            None => {
                let wanted = if is_toml { "" } else { "; it must be a JSON object" };
                reader.complain(0, format!("is empty{wanted}"));
                None
            }
        };
        VisitResult { made, problems: problems.into_inner(), notes: notes.into_inner() }
    }

    fn problem(&self, text: &str, offset: usize, message: String) -> Problem {
        self.problem_at(Some(line_and_column(text, offset)), message)
    }

    /// A problem at a known position.
    pub fn problem_at(&self, at: Option<(usize, usize)>, message: impl Into<String>) -> Problem {
        let text = self.text.trim_start_matches('\u{feff}');
        let line = at.and_then(|(line, _)| text.lines().nth(line - 1));
        let line = line.map(|line| line.chars().take(MAX_LINE).collect::<String>().into());
        Problem { at, line, ..Problem::of(&self.file, message) }
    }
}

/// Line and column of an offset, counted from 1.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    (line, column)
}

#[derive(Clone, Copy)]
struct DocumentReader<'d> {
    document: &'d Document,
    text: &'d str,
    problems: &'d RefCell<Vec<Problem>>,
    notes: &'d RefCell<Vec<Problem>>,
    /// Counts all mistakes, including those that are not listed.
    mistakes: &'d Cell<usize>,
}

impl<'d> DocumentReader<'d> {
    fn complain(&self, offset: usize, message: String) {
        self.mistakes.set(self.mistakes.get() + 1);
        self.say(self.problems, offset, message);
    }

    fn note(&self, offset: usize, message: String) {
        self.say(self.notes, offset, message);
    }

    /// Computing a position costs a scan of the text, so the number of reported problems is limited.
    fn say(&self, said: &RefCell<Vec<Problem>>, offset: usize, message: String) {
        let mut said = said.borrow_mut();
        let message = match said.len() {
            0..MAX_PROBLEMS => message,
            MAX_PROBLEMS => "there is more like this, which is not listed".to_owned(),
            _ => return,
        };
        said.push(self.document.problem(self.text, offset, message));
    }

    fn location_of(&self, offset: usize) -> String {
        let problem = self.document.problem(self.text, offset, String::new());
        problem.to_string().trim_end_matches(": ").to_owned()
    }

    fn fields(self, properties: &'d [ObjectProp<'d>], range: Range, path: String) -> Fields<'d> {
        Fields { reader: self, properties, range, path }
    }
}

/// The members of one object in the file.
pub struct Fields<'d> {
    reader: DocumentReader<'d>,
    properties: &'d [ObjectProp<'d>],
    range: Range,
    path: String,
}

impl<'d> Fields<'d> {
    pub fn get(&self, name: &str) -> Option<Node<'d>> {
        let property = self.properties.iter().find(|property| property.name.as_str() == name)?;
        Some(Node { reader: self.reader, value: &property.value, path: join(&self.path, name) })
    }

    pub fn entries(&self) -> impl Iterator<Item = (&'d str, Node<'d>)> {
        self.properties.iter().map(|property| {
            let name = property.name.as_str();
            let path = join(&self.path, name);
            (name, Node { reader: self.reader, value: &property.value, path })
        })
    }

    /// Reports every member that is not `known`.
    pub fn reject_unknown(&self, known: &[&str]) {
        for property in self.properties {
            // Finding the nearest key costs more than the rest.
            let name = property.name.as_str();
            if self.reader.problems.borrow().len() > MAX_PROBLEMS {
                self.reader.mistakes.set(self.reader.mistakes.get() + usize::from(!known.contains(&name)));
                continue;
            }
            if !known.contains(&name) {
                let hint = nearest(name, known.iter().copied())
                    .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                let path = join(&self.path, name);
                self.reader.complain(property.name.range().start, format!("unknown key `{path}`{hint}"));
            }
        }
    }

    /// The members that are not `known`, each with the most similar known key.
    pub fn unknown_members<'k>(&self, known: &[&'k str]) -> UnknownMembers<'d, 'k> {
        let names = self.properties.iter().map(|property| property.name.as_str());
        let mut unknown = names.filter(|name| !known.contains(name));
        // Finding the nearest key costs more than the rest.
        let first = unknown.by_ref().take(MAX_PROBLEMS);
        let first = first.map(|name| (name, nearest(name, known.iter().copied()))).collect();
        UnknownMembers { first, are_more: unknown.next().is_some() }
    }

    /// Number of mistakes found so far in the whole file.
    pub fn problem_count(&self) -> usize {
        self.reader.mistakes.get()
    }

    /// Notes that members for other hosts have no effect.
    pub fn note_foreign(&self, foreign: &[&str]) {
        for property in self.properties {
            let name = property.name.as_str();
            if foreign.contains(&name) {
                let path = join(&self.path, name);
                self.reader.note(
                    property.name.range().start,
                    format!("`{path}` is for other programs and has no effect here"),
                );
            }
        }
    }

    pub fn complain(&self, message: impl Into<String>) {
        self.reader.complain(self.range.start, message.into());
    }

    /// The position of the object, as `file:line:column`.
    pub fn location(&self) -> String {
        self.reader.location_of(self.range.start)
    }

    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }
}

/// Unknown members of an object.
pub struct UnknownMembers<'d, 'k> {
    /// The first of them, each with the most similar known key.
    pub first: Vec<(&'d str, Option<&'k str>)>,
    /// Whether there are more, which were not examined.
    pub are_more: bool,
}

/// One value in the file.
pub struct Node<'d> {
    reader: DocumentReader<'d>,
    value: &'d Value<'d>,
    path: String,
}

impl<'d> Node<'d> {
    pub fn text(&self) -> Option<String> {
        let found = self.value.as_string_lit().map(|text| text.value.to_string());
        if found.as_ref().is_some_and(|text| text.len() > MAX_TEXT) {
            self.complain(format!("`{}` is over {} KiB", self.path, MAX_TEXT >> 10));
            return None;
        }
        self.wanted(found, "a string")
    }

    /// Number of mistakes found so far in the whole file.
    pub fn problem_count(&self) -> usize {
        self.reader.mistakes.get()
    }

    /// The position of the value, as `file:line:column`.
    pub fn location(&self) -> String {
        self.reader.location_of(self.value.range().start)
    }

    pub fn is_text(&self) -> bool {
        self.value.as_string_lit().is_some()
    }

    pub fn is_flag(&self) -> bool {
        self.value.as_boolean_lit().is_some()
    }

    pub fn is_object(&self) -> bool {
        self.value.as_object().is_some()
    }

    pub fn is_array(&self) -> bool {
        self.value.as_array().is_some()
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }

    /// A string, or a number or boolean as written.
    pub fn scalar(&self) -> Option<String> {
        match self.value {
            Value::NumberLit(number) => Some(digits(number.value)),
            Value::BooleanLit(flag) => Some(flag.value.to_string()),
            _ => self.text(),
        }
    }

    /// A positive number, not necessarily whole.
    pub fn amount(&self) -> Option<f64> {
        let found = self.value.as_number_lit().and_then(|number| digits(number.value).parse().ok());
        self.wanted(found.filter(|amount: &f64| amount.is_finite() && *amount > 0.0), "a number above 0")
    }

    /// Whether it is an object with one of these members.
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.value.as_object().is_some_and(|object| {
            object.properties.iter().any(|property| names.contains(&property.name.as_str()))
        })
    }

    /// The elements of an array.
    pub fn items(&self) -> Option<Vec<Node<'d>>> {
        let Some(array) = self.value.as_array() else { return self.wanted(None, "a list") };
        let item = |(at, value): (usize, &'d Value<'d>)| Node {
            reader: self.reader,
            value,
            path: format!("{}[{at}]", self.path),
        };
        Some(array.elements.iter().enumerate().map(item).collect())
    }

    /// Line and column.
    pub fn at(&self) -> Option<(usize, usize)> {
        Some(line_and_column(self.reader.text, self.value.range().start))
    }

    pub fn note(&self, message: impl Into<String>) {
        self.reader.note(self.value.range().start, message.into());
    }

    pub fn flag(&self) -> Option<bool> {
        self.wanted(self.value.as_boolean_lit().map(|flag| flag.value), "true or false")
    }

    /// A whole number within bounds, also if it is written as `60000.0`.
    pub fn number(&self, least: u64, most: u64) -> Option<u64> {
        let found = self.value.as_number_lit().and_then(|number| {
            let number = digits(number.value);
            let whole = number.trim_end_matches('0').strip_suffix('.').unwrap_or(&number);
            whole.parse().ok()
        });
        let found = found.filter(|number| (least..=most).contains(number));
        self.wanted(found, &format!("a whole number from {least} to {most}"))
    }

    pub fn texts(&self) -> Option<Vec<String>> {
        if !self.is_array() {
            return self.wanted(None, "a list of strings");
        }
        self.items()?.iter().map(Node::text).collect()
    }

    /// One of a few fixed words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.value.as_string_lit().map(|text| text.value.to_string());
        let found =
            words.iter().find(|(word, _)| Some(*word) == text.as_deref()).map(|(_, meaning)| *meaning);
        let known: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.wanted(found, &known.join(" or "))
    }

    pub fn object(&self) -> Option<Fields<'d>> {
        let found = self
            .value
            .as_object()
            .map(|object| self.reader.fields(&object.properties, object.range, self.path.clone()));
        self.wanted(found, "an object")
    }

    pub fn complain(&self, message: impl Into<String>) {
        self.reader.complain(self.value.range().start, message.into());
    }

    fn wanted<T>(&self, found: Option<T>, what: &str) -> Option<T> {
        if found.is_none() {
            self.complain(format!("`{}` must be {what}", self.path));
        }
        found
    }
}

/// A number without the `_` that TOML allows between its digits.
fn digits(number: &str) -> String {
    number.replace('_', "")
}

/// Joins a path for messages; long names and paths are cut.
fn join(path: &str, name: &str) -> String {
    if path.len() > MAX_PATH {
        return path.to_owned();
    }
    let end = name.char_indices().nth(MAX_NAME).map(|(end, _)| end);
    let (name, more) = end.map_or((name, ""), |end| (&name[..end], "…"));
    if path.is_empty() { format!("{name}{more}") } else { format!("{path}.{name}{more}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor_time::processor_time;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let document = Document::from_text(Path::new("f"), text);
        let VisitResult { problems, .. } = document.visit(|fields| {
            fields.reject_unknown(&["name", "limit", "list"]);
            fields.get("name").and_then(|node| node.text());
            fields.get("limit").and_then(|node| node.number(1, 9));
            fields.get("list").and_then(|node| node.texts());
        });
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, expect);
    }

    #[test]
    fn comments_and_trailing_commas_are_fine() {
        check("\u{feff}{ // a\r\n \"name\": \"x\", /* b */ \"limit\": 3,\n}", &[]);
    }

    #[test]
    fn problems_are_reported_with_their_position() {
        check("{\n  \"nmae\": 1\n}", &["f:2:3: unknown key `nmae`; did you mean `name`?"]);
        check("{\"limit\": 10}", &["f:1:11: `limit` must be a whole number from 1 to 9"]);
        check("{\"limit\": 1.5}", &["f:1:11: `limit` must be a whole number from 1 to 9"]);
        check("{\"list\": [\"a\", 2]}", &["f:1:16: `list[1]` must be a string"]);
        check("{\"name\": \"a\",\n\"name\": \"b\"}", &["f:2:1: `name` appears twice"]);
        check("[]", &["f:1:1: must be a JSON object"]);
        check("", &["f:1:1: is empty; it must be a JSON object"]);
    }

    #[test]
    fn toml_is_read_like_json() {
        let check = |text: &str, expect: &[&str]| {
            let document = Document::from_text(Path::new("f.toml"), text);
            let VisitResult { problems, .. } = document.visit(|fields| {
                fields.reject_unknown(&["name", "limit", "list", "table"]);
                let table = fields.get("table").and_then(|node| node.object());
                let limit = table.as_ref().and_then(|table| table.get("limit"));
                limit.or_else(|| fields.get("limit")).and_then(|node| node.number(1, 5000));
                fields.get("list").and_then(|node| node.texts());
            });
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems, expect, "{text}");
        };
        check("\n", &["f.toml:1:1: is empty"]);
        check("# note\nname = 'x'\nlimit = 1_000\nlist = [\n  'a',\n]\n[table]\nlimit = 5", &[]);
        check("nmae = 1", &["f.toml:1:1: unknown key `nmae`; did you mean `name`?"]);
        check("[table]\nlimit = 9_000", &["f.toml:2:9: `table.limit` must be a whole number from 1 to 5000"]);
        check("list = ['a', 1979-05-27, 2]", &["f.toml:1:26: `list[2]` must be a string"]);
        let told = |text: &str| {
            let document = Document::from_text(Path::new("f.toml"), text);
            document.visit(|_| ()).problems.pop().unwrap().to_string()
        };
        assert_eq!(told("name = 'x'\nname = 'y'"), "f.toml:2:1: `name` appears twice");
        assert!(told("[table\n").starts_with("f.toml:1:7: not valid TOML"), "{}", told("[table\n"));
        assert!(told(&format!("a = {}", "[".repeat(9_000))).contains("not valid TOML"));
    }

    #[test]
    fn a_place_can_be_pictured() {
        let document = Document::from_text(Path::new("f"), "{\n  \"nmae\": 1\n}");
        let problem = document.visit(|fields| fields.reject_unknown(&["name"])).problems.pop().unwrap();
        let expect = "f:2:3: unknown key `nmae`; did you mean `name`?\n 2 |   \"nmae\": 1\n   |   ^";
        assert_eq!(problem.pictured(), expect);
    }

    #[test]
    fn broken_json_names_the_place() {
        let document = Document::from_text(Path::new("f"), "{\n \"a\": tru\n}");
        let VisitResult { made, problems, .. } = document.visit(|_| ());
        assert!(made.is_none());
        assert_eq!(problems[0].at, Some((2, 7)), "{}", problems[0]);
    }

    #[test]
    fn a_file_made_of_mistakes_costs_little_to_report() {
        let many: String = (0..60_000).map(|n| format!("\"k{n}\":0,")).collect();
        let start = processor_time();
        let visit = Document::from_text(Path::new("f"), &format!("{{{many}}}"))
            .visit(|fields| fields.reject_unknown(&["name"]));
        assert_eq!(visit.problems.len(), MAX_PROBLEMS + 1);
        let used = processor_time() - start;
        assert!(used.as_secs() < 2, "{used:?}");
        let long = "a".repeat(500_000);
        let text = format!("{{\"{long}\": {{{many}\"k1\": 1}}}}");
        let visit =
            Document::from_text(Path::new("f"), &text).visit(|fields| fields.reject_unknown(&["name"]));
        assert!(visit.problems[0].message.len() < 400, "{}", visit.problems[0]);
        let text = format!("{{\"{long}\": {{{many}}}}}");
        let visit =
            Document::from_text(Path::new("f"), &text).visit(|fields| fields.reject_unknown(&["name"]));
        assert!(visit.problems[0].pictured().len() < 1000, "{}", visit.problems[0]);
        let used = processor_time() - start;
        assert!(used.as_secs() < 10, "{used:?}");
    }

    #[test]
    fn hidden_characters_in_messages_are_escaped() {
        let document = Document::from_text(Path::new("f"), r#"{"\u001b[31m": 1}"#);
        let problem = document.visit(|fields| fields.reject_unknown(&["name"])).problems.pop().unwrap();
        assert_eq!(problem.to_string(), r"f:1:2: unknown key `\u{1b}[31m`");
    }

    #[test]
    fn depth_has_a_limit() {
        let deep = format!("{{\"a\":{}", "[".repeat(200_000));
        let VisitResult { made, problems, .. } = Document::from_text(Path::new("f"), &deep).visit(|_| ());
        assert!(made.is_none() && problems.len() == 1);
        let nested =
            |depth: usize| format!("{}{}", r#"{"a":"#.repeat(depth - 1) + "{}", "}".repeat(depth - 1));
        let told = |text: &str| Document::from_text(Path::new("f"), text).visit(|_| ()).problems.pop();
        assert_eq!(told(&nested(64)), None);
        assert_eq!(told(&nested(65)).unwrap().message, "nested deeper than 64 levels");
    }
}
