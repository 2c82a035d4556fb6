//! Odd framing and noise around messages.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::peer::{MessageWriter, line};
use super::serve::{bend, serve, usual};
use super::tools::echo;
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new("half-lines", "writes one byte at a time", |peer, _| serve_with_writer(&peer, bytewise)),
    Behaviour::new("content-length", "frames with Content-Length", |peer, _| {
        serve_with_writer(&peer, framed)
    }),
    Behaviour::new("content-length-pretty", "pretty-printed JSON in Content-Length frames", |peer, _| {
        serve_with_writer(&peer, pretty);
    }),
    Behaviour::new("content-type", "Content-Length frames with a Content-Type, in lower case", |peer, _| {
        serve_with_writer(&peer, typed);
    }),
    Behaviour::new("mixed-frames", "a line, then a frame, then a line", |peer, _| {
        serve_with_writer(&peer, mixed)
    }),
    Behaviour::new(
        "noisy-stdout",
        "log lines, ANSI, blanks, CRLF and bytes that are no UTF-8 between messages",
        |peer, _| {
            serve_with_writer(&peer, noisy);
        },
    ),
    Behaviour::new("json-noise", "JSON that is no JSON-RPC between messages", |peer, _| {
        serve_with_writer(&peer, json_noise)
    }),
    Behaviour::new("crlf", "ends its lines with CRLF", |peer, _| serve_with_writer(&peer, crlf)),
    Behaviour::new("byte-order-mark", "starts with a byte order mark", |peer, _| {
        peer.write_raw("\u{feff}".as_bytes());
        serve(&peer, usual);
    }),
    Behaviour::new("padded", "blanks around every message", |peer, _| serve_with_writer(&peer, padded)),
    Behaviour::new("banner", "a banner without a newline at its end before the first message", |peer, _| {
        peer.write_raw(b"Evil Child MCP Server v6.6.6\nlistening on stdio\n\n");
        serve(&peer, usual);
    }),
    Behaviour::new(
        "false-header",
        "log lines that look like headers, one with an absurd length",
        |peer, _| {
            peer.write_raw(b"Content-Length: lots\nContent-Length: 99999999999999999999999\n\n");
            serve(&peer, usual);
        },
    ),
    Behaviour::new(
        "wrong-length",
        "N: answers calls in frames whose length is wrong by so much",
        |peer, args| {
            let wrong: i64 = args.first().map_or(9, |text| text.parse().expect("a number"));
            bend(&peer, "tools/call", move |peer, message| {
                let result = echo(&message.tool(), &message.arguments());
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message.id());
                let length = i64::try_from(body.len()).unwrap() + wrong;
                peer.write_raw(format!("Content-Length: {length}\r\n\r\n{body}").as_bytes());
            });
        },
    ),
    Behaviour::new("id-last", "puts the id behind the result", |peer, _| {
        bend(&peer, "tools/call", |peer, message| {
            let result = echo(&message.tool(), &message.arguments());
            peer.send(&format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{}}}"#, message.id()));
        });
    }),
    Behaviour::new(
        "huge-line",
        "MIB: answers calls with one line of so many MiB, the id at its front",
        |peer, args| {
            let mebibytes = number(args, 0, 17);
            bend(&peer, "tools/call", |peer, message| {
                peer.write_raw(
                    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"x":""#, message.id()).as_bytes(),
                );
                fill(peer, mebibytes);
                peer.write_raw(b"\"}}\n");
            });
        },
    ),
    Behaviour::new("huge-line-id-last", "MIB: the same with the id at its end", |peer, args| {
        let mebibytes = number(args, 0, 17);
        bend(&peer, "tools/call", |peer, message| {
            peer.write_raw(br#"{"jsonrpc":"2.0","result":{"id":7,"x":""#);
            fill(peer, mebibytes);
            peer.write_raw(format!("\"}},\"id\":{}}}\n", message.id()).as_bytes());
        });
    }),
    Behaviour::new(
        "huge-frame",
        "MIB: answers calls with a Content-Length frame of so many MiB",
        |peer, args| {
            let mebibytes = number(args, 0, 17);
            bend(&peer, "tools/call", |peer, message| {
                let head = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"x":""#, message.id());
                let length = head.len() as u64 + (mebibytes << 20) + 3;
                peer.write_raw(format!("Content-Length: {length}\r\n\r\n{head}").as_bytes());
                fill(peer, mebibytes);
                peer.write_raw(b"\"}}");
            });
        },
    ),
    Behaviour::new(
        "huge-noise",
        "MIB: a line of noise of so many MiB before each answer to a call",
        |peer, args| {
            let mebibytes = number(args, 0, 40);
            bend(&peer, "tools/call", |peer, message| {
                fill(peer, mebibytes);
                peer.write_raw(b"\n");
                super::serve::answer(peer, message);
            });
        },
    ),
];

fn serve_with_writer(peer: &Peer, dress: MessageWriter) {
    peer.set_writer(dress);
    serve(peer, usual);
}

/// Writes each byte separately, directly to the pipe.
fn bytewise(message: &str, _: &mut dyn Write) -> io::Result<()> {
    let stdout = rustix::stdio::stdout();
    for byte in message.bytes().chain([b'\n']) {
        rustix::io::write(stdout, &[byte])?;
    }
    Ok(())
}

fn framed(message: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "Content-Length: {}\r\n\r\n{message}", message.len())
}

fn pretty(message: &str, out: &mut dyn Write) -> io::Result<()> {
    let value: Value = serde_json::from_str(message)?;
    framed(&serde_json::to_string_pretty(&value)?, out)
}

fn typed(message: &str, out: &mut dyn Write) -> io::Result<()> {
    let kind = "application/vscode-jsonrpc; charset=utf-8";
    write!(out, "content-type: {kind}\r\ncontent-length:{}\r\n\r\n{message}", message.len())
}

fn mixed(message: &str, out: &mut dyn Write) -> io::Result<()> {
    static TURN: AtomicU64 = AtomicU64::new(0);
    match TURN.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => line(message, out),
        1 => framed(message, out),
        _ => pretty(message, out),
    }
}

fn noisy(message: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"\x1b[32mINFO\x1b[0m a request came in\n\n   \r\nDEBUG: [object Object]\r\n\xff\xfe\x80 garbage\n",
    )?;
    line(message, out)?;
    out.write_all(b"\0\0\0\nTraceback (most recent call last):\n  {not json}\n[1, 2\n")
}

fn json_noise(message: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"level\":\"info\",\"msg\":\"hi\",\"id\":1}\n[]\n{}\n{\"jsonrpc\":\"2.0\"}\n")?;
    line(message, out)?;
    out.write_all(b"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n")
}

fn crlf(message: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{message}\r\n")
}

fn padded(message: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "\n \t {message} \t \n\n")
}

fn fill(peer: &Peer, mebibytes: u64) {
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..mebibytes {
        peer.write_raw(&chunk);
    }
}
