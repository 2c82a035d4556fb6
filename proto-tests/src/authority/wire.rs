//! The HTTP that the two servers need: one request per connection, read whole.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

#[derive(Debug)]
pub(super) struct AuthorityRequest {
    pub(super) method: String,
    pub(super) path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl AuthorityRequest {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    }

    /// The fields of the query, or of a posted form.
    pub(super) fn fields(&self) -> BTreeMap<String, String> {
        let form = String::from_utf8_lossy(&self.body).into_owned();
        let text = if self.method == "POST" { &form } else { &self.query };
        url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }
}

impl Answer {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.to_string() }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, headers: vec![("content-type", "text/plain".to_owned())], body: body.to_owned() }
    }

    pub(super) fn redirect(to: &str) -> Self {
        Self { status: 302, headers: vec![("location", to.to_owned())], body: String::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

pub(super) fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Serves each connection in its own thread, until the process ends.
pub(super) fn serve(
    listener: TcpListener,
    answer: impl Fn(AuthorityRequest) -> Answer + Send + Clone + 'static,
) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                if let Some(asked) = read(&stream) {
                    write(&stream, &answer(asked));
                }
            });
        }
    });
}

fn read(mut stream: &TcpStream) -> Option<AuthorityRequest> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    let (head, asked) = loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head) = request.parse(&bytes).ok()? {
            let target = request.path?.to_owned();
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers = request.headers.iter().map(|header| (header.name.to_owned(), text(header.value)));
            let asked = AuthorityRequest {
                method: request.method?.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                headers: headers.collect(),
                body: Vec::new(),
            };
            break (head, asked);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    let length: usize = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head);
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend_from_slice(&chunk[..count]),
        }
    }
    Some(AuthorityRequest { body, ..asked })
}

fn write(mut stream: &TcpStream, answer: &Answer) {
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{}", answer.body.len(), answer.body));
    let _ = stream.write_all(text.as_bytes());
}
