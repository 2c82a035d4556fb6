//! Finds the top-level `id` of a message that is too long to keep, while its bytes go by, so that
//! the call it answers can be told at once instead of waiting for its deadline.

/// Ids longer than this are given up on.
const MAX_ID: usize = 256;

#[derive(Debug, Default)]
pub struct IdScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    place: Place,
    /// The key or the value being collected.
    text: Vec<u8>,
    id: Option<Box<str>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Place {
    /// Before, or in, a key of the outermost object.
    #[default]
    Key,
    /// Behind the key `id`: what comes up to the next comma is wanted.
    Id,
    /// Behind any other key.
    Other,
}

impl IdScan {
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.id.is_none() {
            for &byte in bytes {
                self.step(byte);
            }
        }
    }

    /// The id as it was written, quotes and all.
    pub fn into_id(self) -> Option<Box<str>> {
        self.id
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.collect(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.collect(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > 1 {
                    self.collect(byte);
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.value_ends();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.place == Place::Key => {
                self.place = if self.text == b"\"id\"" { Place::Id } else { Place::Other };
                self.text.clear();
            }
            b',' if self.depth == 1 => self.value_ends(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.collect(byte),
        }
    }

    fn collect(&mut self, byte: u8) {
        if self.depth == 1 && self.place != Place::Other && self.text.len() <= MAX_ID {
            self.text.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.place == Place::Id && self.text.len() <= MAX_ID && self.id.is_none() {
            self.id = String::from_utf8(std::mem::take(&mut self.text)).ok().map(Into::into);
        }
        self.text.clear();
        self.place = Place::Key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, id: Option<&str>) {
        let mut scan = IdScan::default();
        for byte in message.as_bytes() {
            scan.feed(std::slice::from_ref(byte));
        }
        assert_eq!(scan.into_id().as_deref(), id, "{message}");
    }

    #[test]
    fn the_outer_id_is_found_wherever_it_stands() {
        check(r#"{"jsonrpc":"2.0","id":5,"result":{"id":9}}"#, Some("5"));
        check(r#"{"result":{"id":9,"x":[{"id":1}]}, "id" : "a\"b" }"#, Some(r#""a\"b""#));
        check(r#"{"result":"\"id\":3,","id":4}"#, Some("4"));
        check(r#"{"result":{"id":9}}"#, None);
        check("no json at all", None);
    }
}
