//! Reads TOML into the same tree as JSON, with the positions of the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::Peekable;

use jsonc_parser::ast::{Array, BooleanLit, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value};
use jsonc_parser::common::Range;
use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ParseError, Source, Span};

use super::strict::{MAX_DEPTH, deep};

/// Where a mistake is, and what it is.
type Mistake = (usize, String);

/// The root table, or the first mistake.
pub fn parse(text: &str) -> Result<Value<'_>, Mistake> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let (mut events, mut error) = (Vec::new(), None::<ParseError>);
    let mut checked = ValidateWhitespace::new(&mut events, source);
    // One deeper than the check of every document, which says so.
    let mut limited = RecursionGuard::new(&mut checked, MAX_DEPTH as u32 + 1);
    parse_document(&tokens, &mut limited, &mut error);
    if let Some(error) = error {
        return Err(invalid(&error));
    }
    let is_meant = |event: &Event| {
        !matches!(event.kind(), EventKind::Whitespace | EventKind::Comment | EventKind::Newline)
    };
    let events: Vec<Event> = events.into_iter().filter(is_meant).collect();
    let mut reader =
        TomlReader { source, events: events.into_iter().peekable(), error: None, header: 0, depth: 1 };
    let root = reader.document()?;
    match reader.error {
        Some(error) => Err(invalid(&error)),
        None => Ok(root.into_object(Range::new(0, text.len()))),
    }
}

fn invalid(error: &ParseError) -> Mistake {
    let at = error.unexpected().or(error.context()).map_or(0, |span| span.start());
    (at, format!("not valid TOML: {}", error.description()))
}

struct TomlReader<'t, E: Iterator<Item = Event>> {
    source: Source<'t>,
    events: Peekable<E>,
    /// The first that a key or a value gave.
    error: Option<ParseError>,
    /// The parts of the last header.
    header: usize,
    /// How many tables and arrays are around what is read. All that is built later is walked recursively.
    depth: usize,
}

/// One part of a dotted key.
struct Key {
    name: String,
    range: Range,
}

/// How a table came to be, which decides what may be added to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableKind {
    /// As a part of another table's header.
    Implicit,
    /// By its own header.
    Header,
    /// As a part of a dotted key.
    Dotted,
}

struct TomlTable<'t> {
    kind: TableKind,
    range: Range,
    members: Vec<(Key, Item<'t>)>,
    places: HashMap<String, usize>,
}

enum Item<'t> {
    /// Nothing is added to it later: also an array, or a table in braces.
    Value(Value<'t>),
    Table(TomlTable<'t>),
    Tables(Vec<TomlTable<'t>>),
}

impl<'t> TomlTable<'t> {
    fn new(kind: TableKind, range: Range) -> Self {
        Self { kind, range, members: Vec::new(), places: HashMap::new() }
    }

    fn insert(&mut self, key: Key, item: Item<'t>) -> Result<(), Mistake> {
        if self.places.contains_key(&key.name) {
            return Err(twice(&key));
        }
        self.places.insert(key.name.clone(), self.members.len());
        self.members.push((key, item));
        Ok(())
    }

    fn member(&mut self, key: &Key) -> Option<&mut Item<'t>> {
        let at = *self.places.get(&key.name)?;
        Some(&mut self.members[at].1)
    }

    /// The table below this one that a key's first parts name. It is made if it is not there.
    fn below(&mut self, keys: Vec<Key>, kind: TableKind) -> Result<&mut Self, Mistake> {
        let mut here = self;
        for key in keys {
            if here.member(&key).is_none() {
                let (name, range) = (key.name.clone(), key.range);
                here.insert(Key { name, range }, Item::Table(Self::new(kind, range)))?;
            }
            here = match here.member(&key) {
                Some(Item::Table(table)) if kind == TableKind::Implicit || table.kind == kind => table,
                Some(Item::Tables(tables)) if kind == TableKind::Implicit => {
                    tables.last_mut().ok_or_else(|| twice(&key))?
                }
                _ => return Err(twice(&key)),
            };
        }
        Ok(here)
    }

    /// The table of a header; `in_list`: of one with two brackets.
    fn header(&mut self, mut keys: Vec<Key>, in_list: bool) -> Result<&mut Self, Mistake> {
        let Some(last) = keys.pop() else { return Ok(self) };
        let parent = self.below(keys, TableKind::Implicit)?;
        let new = Self::new(TableKind::Header, last.range);
        if parent.member(&last).is_none() {
            let item = if in_list { Item::Tables(vec![new]) } else { Item::Table(new) };
            let at = parent.members.len();
            parent.insert(last, item)?;
            return match &mut parent.members[at].1 {
                Item::Table(table) => Ok(table),
                Item::Tables(tables) => Ok(&mut tables[0]),
                Item::Value(_) => unreachable!("BUG: a header makes a table"),
            };
        }
        match parent.member(&last) {
            Some(Item::Table(table)) if !in_list && table.kind == TableKind::Implicit => {
                table.kind = TableKind::Header;
                Ok(table)
            }
            Some(Item::Tables(tables)) if in_list => {
                tables.push(new);
                tables.last_mut().ok_or_else(|| twice(&last))
            }
            _ => Err(twice(&last)),
        }
    }

    fn add(&mut self, mut keys: Vec<Key>, value: Value<'t>) -> Result<(), Mistake> {
        let Some(last) = keys.pop() else { return Ok(()) };
        self.below(keys, TableKind::Dotted)?.insert(last, Item::Value(value))
    }

    fn into_object(self, range: Range) -> Value<'t> {
        let member = |(key, item): (Key, Item<'t>)| {
            let value = match item {
                Item::Value(value) => value,
                Item::Table(table) => {
                    let range = table.range;
                    table.into_object(range)
                }
                Item::Tables(tables) => Value::Array(Array {
                    range: key.range,
                    elements: tables.into_iter().map(|table| table.into_object(key.range)).collect(),
                }),
            };
            let name = StringLit { range: key.range, value: Cow::Owned(key.name) };
            ObjectProp { range: key.range, name: ObjectPropName::String(name), value }
        };
        Value::Object(Object { range, properties: self.members.into_iter().map(member).collect() })
    }
}

fn twice(key: &Key) -> Mistake {
    (key.range.start, format!("`{}` appears twice", key.name))
}

fn range(span: Span) -> Range {
    Range::new(span.start(), span.end())
}

impl<'t, E: Iterator<Item = Event>> TomlReader<'t, E> {
    fn document(&mut self) -> Result<TomlTable<'t>, Mistake> {
        let mut root = TomlTable::new(TableKind::Header, Range::new(0, 0));
        let mut here = &mut root;
        while let Some(event) = self.events.peek() {
            let kind = event.kind();
            match kind {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                    self.events.next();
                    self.depth -= std::mem::take(&mut self.header);
                    let keys = self.keys()?;
                    self.header = keys.len();
                    self.depth += self.header;
                    here = root.header(keys, kind == EventKind::ArrayTableOpen)?;
                }
                EventKind::SimpleKey => {
                    let (keys, value) = self.member()?;
                    here.add(keys, value)?;
                }
                _ => drop(self.events.next()),
            }
        }
        Ok(root)
    }

    /// The parts of a key.
    fn keys(&mut self) -> Result<Vec<Key>, Mistake> {
        let mut keys = Vec::new();
        while let Some(event) =
            self.events.next_if(|event| matches!(event.kind(), EventKind::SimpleKey | EventKind::KeySep))
        {
            if event.kind() == EventKind::SimpleKey
                && let Some(raw) = self.source.get(event)
            {
                let mut name = String::new();
                raw.decode_key(&mut name, &mut self.error);
                keys.push(Key { name, range: range(event.span()) });
                self.check_depth(self.depth + keys.len(), event.span())?;
            }
        }
        Ok(keys)
    }

    /// A key and its value.
    fn member(&mut self) -> Result<(Vec<Key>, Value<'t>), Mistake> {
        let keys = self.keys()?;
        self.events.next_if(|event| event.kind() == EventKind::KeyValSep);
        self.depth += keys.len();
        let value = self.value()?;
        self.depth -= keys.len();
        Ok((keys, value))
    }

    /// `depth`: of a value at `place`.
    fn check_depth(&self, depth: usize, place: Span) -> Result<(), Mistake> {
        match depth > MAX_DEPTH {
            true => Err((place.start(), deep())),
            false => Ok(()),
        }
    }

    /// The parser has checked that there is a value.
    fn value(&mut self) -> Result<Value<'t>, Mistake> {
        let Some(event) = self.events.next() else { return Err((0, "not valid TOML: no value".to_owned())) };
        let start = event.span();
        match event.kind() {
            EventKind::ArrayOpen => {
                let mut elements = Vec::new();
                self.check_depth(self.depth, start)?;
                self.depth += 1;
                let end = loop {
                    match self.events.peek().map(|event| (event.kind(), event.span())) {
                        Some((EventKind::ArrayClose, end)) => break end,
                        Some((EventKind::ValueSep, _)) => {}
                        Some(_) => {
                            elements.push(self.value()?);
                            continue;
                        }
                        None => break start,
                    }
                    self.events.next();
                };
                self.depth -= 1;
                self.events.next();
                Ok(Value::Array(Array { range: Range::new(start.start(), end.end()), elements }))
            }
            EventKind::InlineTableOpen => {
                let mut table = TomlTable::new(TableKind::Header, range(start));
                self.check_depth(self.depth, start)?;
                let end = loop {
                    match self.events.peek().map(|event| (event.kind(), event.span())) {
                        Some((EventKind::SimpleKey, _)) => {
                            let (keys, value) = self.member()?;
                            table.add(keys, value)?;
                            continue;
                        }
                        Some((EventKind::InlineTableClose, end)) => break end,
                        Some(_) => {}
                        None => break start,
                    }
                    self.events.next();
                };
                self.events.next();
                Ok(table.into_object(Range::new(start.start(), end.end())))
            }
            _ => Ok(self.scalar(&event)),
        }
    }

    fn scalar(&mut self, event: &Event) -> Value<'t> {
        let range = range(event.span());
        let Some(raw) = self.source.get(event) else {
            return Value::StringLit(StringLit { range, value: Cow::Borrowed("") });
        };
        let mut text = String::new();
        match raw.decode_scalar(&mut text, &mut self.error) {
            ScalarKind::Boolean(value) => Value::BooleanLit(BooleanLit { range, value }),
            ScalarKind::Integer(_) | ScalarKind::Float => {
                Value::NumberLit(NumberLit { range, value: raw.as_str() })
            }
            ScalarKind::String | ScalarKind::DateTime => {
                Value::StringLit(StringLit { range, value: Cow::Owned(text) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As JSON.
    fn plain(value: &Value<'_>) -> serde_json::Value {
        match value {
            Value::StringLit(text) => text.value.to_string().into(),
            Value::NumberLit(number) => serde_json::from_str(&number.value.replace('_', "")).unwrap(),
            Value::BooleanLit(flag) => flag.value.into(),
            Value::NullKeyword(_) => serde_json::Value::Null,
            Value::Array(array) => array.elements.iter().map(plain).collect(),
            Value::Object(object) => {
                let members = object.properties.iter();
                members.map(|member| (member.name.as_str().to_owned(), plain(&member.value))).collect()
            }
        }
    }

    #[test]
    fn a_file_becomes_a_tree() {
        let text = r#"
            top = 1_000
            "a b".'c.d' = "x\ty\u0041"
            list = [ 1, [ 'l\t' ], { in.line = true, other = [] }, ] # note
            day = 1979-05-27
            long = """
one \
   two"""

            [servers.one]
            command = "c"
            env.A = "1"
            env.B = "2"
            [servers.one.more]
            deep = -1.5
            [servers]
            last = 0
            [[many.of]]
            n = 1
            [many.of.below]
            m = 1
            [[many.of]]
            n = 2
        "#;
        let expect = serde_json::json!({
            "top": 1000, "a b": {"c.d": "x\tyA"}, "list": [1, ["l\\t"], {"in": {"line": true}, "other": []}],
            "day": "1979-05-27", "long": "one two",
            "servers": {"one": {"command": "c", "env": {"A": "1", "B": "2"}, "more": {"deep": -1.5}}, "last": 0},
            "many": {"of": [{"n": 1, "below": {"m": 1}}, {"n": 2}]},
        });
        assert_eq!(plain(&parse(text).unwrap()), expect);
        assert_eq!(plain(&parse("").unwrap()), serde_json::json!({}));
    }

    #[test]
    fn nothing_is_defined_twice() {
        for text in [
            "a = 1\na = 2",
            "a = 1\n'a' = 2",
            "[a]\n[a]",
            "[a]\nb = 1\n[a.b]",
            "a = 1\n[a]",
            "a = 1\n[a.b]",
            "a = {}\n[a.b]",
            "a = {}\na.b = 1",
            "a = { b = 1, b = 2 }",
            "a.b = 1\n[a]",
            "a.b = 1\na.b.c = 2",
            "[a.b]\n[a]\nb.c = 1",
            "[[a]]\n[a]",
            "[a]\n[[a]]",
            "a = []\n[[a]]",
            "[x]\na.b = 1\n[x.a]",
        ] {
            let (_, why) = parse(text).unwrap_err();
            assert!(why.ends_with("appears twice"), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_place() {
        for (text, at) in [
            ("a", 1),
            ("a = ", 4),
            ("[a", 2),
            ("a = [1", 6),
            ("a = tru", 4),
            ("a = \"\\q\"", 6),
            ("a = 1 b = 2", 6),
        ] {
            let (found, why) = parse(text).unwrap_err();
            assert!(why.starts_with("not valid TOML: "), "{text}: {why}");
            assert!(found.abs_diff(at) <= 2, "{text}: {found} {why}");
        }
        assert!(parse(&format!("a = {}", "[".repeat(100_000))).is_err());
        assert!(parse(&format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err());
    }

    #[test]
    fn tables_are_nested_no_deeper_than_in_json() {
        let dotted = |parts: usize| vec!["a"; parts].join(".");
        let shapes: [fn(&str) -> String; 8] = [
            |key| format!("{key} = 1"),
            |key| format!("[{key}]"),
            |key| format!("[[{key}]]"),
            |key| format!("x = {{ {key} = 1 }}"),
            |key| format!("x = [{{ {key} = 1 }}]"),
            |key| format!("[{key}]\n{key} = {{ {key} = {{ {key} = 1 }} }}"),
            |key| format!("[[{key}]]\n[[{key}.{key}]]\n[{key}.{key}.{key}]"),
            |key| format!("[x]\n{key} = [[{{ {key} = [] }}]]"),
        ];
        for shape in shapes {
            for parts in [65, 700, 5_000, 400_000] {
                let (_, why) = parse(&shape(&dotted(parts))).unwrap_err();
                assert_eq!(why, "nested deeper than 64 levels", "{}", shape("KEY"));
            }
            assert!(parse(&shape(&dotted(10))).is_ok(), "{}", shape("KEY"));
        }
        assert!(parse(&format!("[{0}]\n{0} = 1", dotted(32))).is_err());
        for text in [dotted(63) + " = 1", format!("[{}]\n{} = 1", dotted(31), dotted(32))] {
            assert!(parse(&text).is_ok(), "{text}");
        }
        // The last header counts, and no earlier one.
        assert!(parse(&format!("[{}]\n[b]\n{} = 1", dotted(63), dotted(62))).is_ok());
    }
}
