//! A JSON file written by a person: read with comments and trailing commas, and with the place of
//! every value, so that whatever is wrong can be shown as `file:line:column`.

mod nearest;

use std::cell::RefCell;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

pub use nearest::nearest;

const MAX_BYTES: u64 = 1024 * 1024;

/// JSON plus what people write into such files; nothing that would make it another language.
const DIALECT: ParseOptions = ParseOptions {
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

/// Something in a file that its writer should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Line and column, counted from 1; `None` for the file as a whole.
    pub at: Option<(usize, usize)>,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Problem {}

#[derive(Debug)]
pub struct Document {
    pub file: PathBuf,
    text: String,
}

impl Document {
    /// `Ok(None)` if there is no such file.
    pub fn read(file: &Path) -> Result<Option<Self>, Problem> {
        let wrong = |message: String| Problem { file: file.to_owned(), at: None, message };
        let meta = match std::fs::metadata(file) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
        };
        // Looked at before it is opened: opening a pipe or a device could wait for ever.
        if !meta.is_file() {
            return Err(wrong("is not a regular file".to_owned()));
        }
        let opened = std::fs::File::open(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let mut text = String::new();
        match opened.take(MAX_BYTES + 1).read_to_string(&mut text) {
            Ok(count) if count as u64 > MAX_BYTES => Err(wrong(format!("is over {} MiB", MAX_BYTES >> 20))),
            Ok(_) => Ok(Some(Self { file: file.to_owned(), text })),
            Err(error) => Err(wrong(format!("cannot be read: {error}"))),
        }
    }

    pub fn from_text(file: &Path, text: &str) -> Self {
        Self { file: file.to_owned(), text: text.to_owned() }
    }

    /// Has `read` go through the root object; gives what it made and everything it found wrong.
    pub fn visit<T>(&self, read: impl FnOnce(&Fields<'_>) -> T) -> (Option<T>, Vec<Problem>) {
        let text = self.text.trim_start_matches('\u{feff}');
        let parsed = match parse_to_ast(text, &CollectOptions::default(), &DIALECT) {
            Ok(parsed) => parsed,
            Err(error) => {
                let message = format!("not valid JSON: {}", error.kind());
                return (None, vec![self.problem(text, error.range().start, message)]);
            }
        };
        let problems = RefCell::new(Vec::new());
        let reader = Reader { document: self, text, problems: &problems };
        let made = match &parsed.value {
            Some(Value::Object(object)) => {
                Some(read(&reader.fields(&object.properties, object.range, String::new())))
            }
            other => {
                let start = other.as_ref().map_or(0, |value| value.range().start);
                reader.complain(start, "must be a JSON object".to_owned());
                None
            }
        };
        (made, problems.into_inner())
    }

    fn problem(&self, text: &str, offset: usize, message: String) -> Problem {
        let before = &text[..offset.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Problem { file: self.file.clone(), at: Some((line, column)), message }
    }
}

#[derive(Clone, Copy)]
struct Reader<'d> {
    document: &'d Document,
    text: &'d str,
    problems: &'d RefCell<Vec<Problem>>,
}

impl<'d> Reader<'d> {
    fn complain(&self, offset: usize, message: String) {
        self.problems.borrow_mut().push(self.document.problem(self.text, offset, message));
    }

    fn fields(self, properties: &'d [ObjectProp<'d>], range: Range, path: String) -> Fields<'d> {
        for (at, property) in properties.iter().enumerate() {
            let name = property.name.as_str();
            if properties[..at].iter().any(|earlier| earlier.name.as_str() == name) {
                self.complain(property.name.range().start, format!("`{}` appears twice", join(&path, name)));
            }
        }
        Fields { reader: self, properties, range, path }
    }
}

/// The members of one object in the file.
pub struct Fields<'d> {
    reader: Reader<'d>,
    properties: &'d [ObjectProp<'d>],
    range: Range,
    path: String,
}

impl<'d> Fields<'d> {
    pub fn get(&self, name: &str) -> Option<Node<'d>> {
        self.entries().find(|(known, _)| *known == name).map(|(_, node)| node)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&'d str, Node<'d>)> {
        self.properties.iter().map(|property| {
            let name = property.name.as_str();
            let path = join(&self.path, name);
            (name, Node { reader: self.reader, value: &property.value, path })
        })
    }

    /// Complains about every member that is not `known`.
    pub fn only(&self, known: &[&str]) {
        for property in self.properties {
            let name = property.name.as_str();
            if !known.contains(&name) {
                let hint = nearest(name, known.iter().copied())
                    .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                let path = join(&self.path, name);
                self.reader.complain(property.name.range().start, format!("unknown key `{path}`{hint}"));
            }
        }
    }

    pub fn complain(&self, message: impl Into<String>) {
        self.reader.complain(self.range.start, message.into());
    }
}

/// One value in the file.
pub struct Node<'d> {
    reader: Reader<'d>,
    value: &'d Value<'d>,
    path: String,
}

impl<'d> Node<'d> {
    pub fn text(&self) -> Option<String> {
        let found = self.value.as_string_lit().map(|text| text.value.to_string());
        self.wanted(found, "a string")
    }

    pub fn flag(&self) -> Option<bool> {
        self.wanted(self.value.as_boolean_lit().map(|flag| flag.value), "true or false")
    }

    /// A whole number within bounds.
    pub fn number(&self, least: u64, most: u64) -> Option<u64> {
        let found = self.value.as_number_lit().and_then(|number| number.value.parse().ok());
        let found = found.filter(|number| (least..=most).contains(number));
        self.wanted(found, &format!("a whole number from {least} to {most}"))
    }

    pub fn texts(&self) -> Option<Vec<String>> {
        let Some(array) = self.value.as_array() else {
            return self.wanted(None, "a list of strings");
        };
        let mut texts = Vec::new();
        for (at, value) in array.elements.iter().enumerate() {
            let path = format!("{}[{at}]", self.path);
            texts.push(Node { reader: self.reader, value, path }.text()?);
        }
        Some(texts)
    }

    /// One of a few words.
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

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let document = Document::from_text(Path::new("f"), text);
        let (_, problems) = document.visit(|fields| {
            fields.only(&["name", "limit", "list"]);
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
    fn what_is_wrong_is_told_with_its_place() {
        check("{\n  \"nmae\": 1\n}", &["f:2:3: unknown key `nmae`; did you mean `name`?"]);
        check("{\"limit\": 10}", &["f:1:11: `limit` must be a whole number from 1 to 9"]);
        check("{\"limit\": 1.5}", &["f:1:11: `limit` must be a whole number from 1 to 9"]);
        check("{\"list\": [\"a\", 2]}", &["f:1:16: `list[1]` must be a string"]);
        check("{\"name\": \"a\",\n\"name\": \"b\"}", &["f:2:1: `name` appears twice"]);
        check("[]", &["f:1:1: must be a JSON object"]);
        check("", &["f:1:1: must be a JSON object"]);
    }

    #[test]
    fn broken_json_names_the_place() {
        let document = Document::from_text(Path::new("f"), "{\n \"a\": tru\n}");
        let (made, problems) = document.visit(|_| ());
        assert!(made.is_none());
        assert_eq!(problems[0].at, Some((2, 7)), "{}", problems[0]);
    }

    #[test]
    fn depth_has_a_limit() {
        let deep = format!("{{\"a\":{}", "[".repeat(200_000));
        let (made, problems) = Document::from_text(Path::new("f"), &deep).visit(|_| ());
        assert!(made.is_none() && problems.len() == 1);
    }
}
