//! An OTLP message as a tree, written as protobuf or as JSON. Both come from the same tree, so they cannot
//! differ. Pure.

use std::fmt::Write;

use switchboard_wire::envelope::quoted;
use switchboard_wire::hex::hex;

#[derive(Debug, Clone)]
pub enum FieldValue {
    Message(Vec<Field>),
    /// Repeated messages; protobuf writes each as its own field.
    List(Vec<FieldValue>),
    Text(String),
    /// Hexadecimal in JSON, as OTLP requires for ids.
    Id(Box<[u8]>),
    /// A string in JSON, whose numbers cannot hold 64 bits.
    Fixed64(u64),
    Fixed64s(Vec<u64>),
    Double(f64),
    Doubles(Vec<f64>),
    /// An enum, or another small number.
    Small(u32),
    Bool(bool),
}

#[derive(Debug, Clone)]
pub struct Field {
    number: u32,
    name: &'static str,
    value: FieldValue,
}

pub fn field(number: u32, name: &'static str, value: FieldValue) -> Field {
    Field { number, name, value }
}

pub fn message(fields: impl Into<Vec<Field>>) -> FieldValue {
    FieldValue::Message(fields.into())
}

/// An attribute with a string value.
pub fn attribute(key: &str, value: &str) -> FieldValue {
    attribute_of(key, field(1, "stringValue", FieldValue::Text(value.to_owned())))
}

fn attribute_of(key: &str, value: Field) -> FieldValue {
    message([field(1, "key", FieldValue::Text(key.to_owned())), field(2, "value", message([value]))])
}

impl FieldValue {
    pub fn json(&self) -> Vec<u8> {
        let mut out = String::new();
        self.push_json(&mut out);
        out.into_bytes()
    }

    /// Only a message can be written by itself; other values give no bytes.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Self::Message(fields) = self {
            fields.iter().for_each(|field| push_field(field.number, &field.value, &mut out));
        }
        out
    }

    fn push_json(&self, out: &mut String) {
        let list = |items: &mut dyn Iterator<Item = String>, out: &mut String| {
            out.push('[');
            for (at, item) in items.enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&item);
            }
            out.push(']');
        };
        match self {
            Self::Message(fields) => {
                out.push('{');
                for (at, field) in fields.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    let _ = write!(out, "\"{}\":", field.name);
                    field.value.push_json(out);
                }
                out.push('}');
            }
            Self::List(items) => list(
                &mut items.iter().map(|item| {
                    let mut text = String::new();
                    item.push_json(&mut text);
                    text
                }),
                out,
            ),
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Id(id) => {
                out.push('"');
                out.push_str(&hex(id));
                out.push('"');
            }
            Self::Fixed64(number) => {
                let _ = write!(out, "\"{number}\"");
            }
            Self::Fixed64s(numbers) => list(&mut numbers.iter().map(|number| format!("\"{number}\"")), out),
            Self::Double(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Doubles(numbers) => list(&mut numbers.iter().map(ToString::to_string), out),
            Self::Small(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Bool(value) => {
                let _ = write!(out, "{value}");
            }
        }
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

fn push_field(number: u32, value: &FieldValue, out: &mut Vec<u8>) {
    let tag = |kind: u32, out: &mut Vec<u8>| push_varint(u64::from(number << 3 | kind), out);
    let bytes = |bytes: &[u8], out: &mut Vec<u8>| {
        tag(LENGTH, out);
        push_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    };
    match value {
        FieldValue::Message(_) => bytes(&value.protobuf(), out),
        FieldValue::List(items) => items.iter().for_each(|item| push_field(number, item, out)),
        FieldValue::Text(text) => bytes(text.as_bytes(), out),
        FieldValue::Id(id) => bytes(id, out),
        FieldValue::Fixed64s(numbers) => {
            bytes(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>(), out);
        }
        FieldValue::Doubles(numbers) => {
            bytes(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>(), out);
        }
        FieldValue::Fixed64(fixed) => {
            tag(FIXED64, out);
            out.extend_from_slice(&fixed.to_le_bytes());
        }
        FieldValue::Double(double) => {
            tag(FIXED64, out);
            out.extend_from_slice(&double.to_le_bytes());
        }
        FieldValue::Small(small) => {
            tag(VARINT, out);
            push_varint(u64::from(*small), out);
        }
        FieldValue::Bool(value) => {
            tag(VARINT, out);
            push_varint(u64::from(*value), out);
        }
    }
}

fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_json_and_as_protobuf() {
        let value = message([
            field(1, "traceId", FieldValue::Id([0xab, 1].into())),
            field(5, "name", FieldValue::Text("a\"é".to_owned())),
            field(7, "startTimeUnixNano", FieldValue::Fixed64(1 << 60)),
            field(9, "attributes", FieldValue::List(vec![attribute("k", "v"), attribute("l", "")])),
            field(12, "count", FieldValue::Small(300)),
            field(14, "bounds", FieldValue::Doubles(vec![0.5, 1.0])),
            field(15, "buckets", FieldValue::Fixed64s(vec![1, 2])),
            field(16, "isMonotonic", FieldValue::Bool(true)),
        ]);
        let json = r#"{"traceId":"ab01","name":"a\"é","startTimeUnixNano":"1152921504606846976","attributes":[{"key":"k","value":{"stringValue":"v"}},{"key":"l","value":{"stringValue":""}}],"count":300,"bounds":[0.5,1],"buckets":["1","2"],"isMonotonic":true}"#;
        assert_eq!(String::from_utf8(value.json()).unwrap(), json);
        #[rustfmt::skip]
        let wanted: &[&[u8]] = &[
            &[0x0a, 2, 0xab, 1],
            &[0x2a, 4, b'a', b'"', 0xc3, 0xa9],
            &[0x39, 0, 0, 0, 0, 0, 0, 0, 0x10],
            &[0x4a, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 1, b'v'],
            &[0x4a, 7, 0x0a, 1, b'l', 0x12, 2, 0x0a, 0],
            &[0x60, 0xac, 2],
            &[0x72, 16, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            &[0x7a, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
            &[0x80, 1, 1],
        ];
        assert_eq!(value.protobuf(), wanted.concat());
    }
}
