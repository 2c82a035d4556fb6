//! Output as fast as it is read.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::serve::{Handling, serve};
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[Behaviour::new(
    "floods",
    "STREAM BYTES: from its first call on, writes lines of so many bytes to `stderr`, or to `stdout` as noise or as `logs`; the tool `count` stops it and gives the bytes",
    |peer, args| {
        let stream = args.first().copied().unwrap_or("stderr").to_owned();
        let line = usize::try_from(number(args, 1, 100)).unwrap_or(100);
        let written: Arc<AtomicU64> = Arc::default();
        let is_over: Arc<AtomicBool> = Arc::default();
        let mut started = false;
        serve(&peer, move |peer, message| {
            if !message.is("tools/call") {
                return Handling::Usual;
            }
            if message.tool() == "count" {
                is_over.store(true, Ordering::Relaxed);
                let bytes = written.load(Ordering::Relaxed);
                peer.result(
                    message.id(),
                    &format!(r#"{{"content":[],"structuredContent":{{"bytes":{bytes}}}}}"#),
                );
                return Handling::Taken;
            }
            if !std::mem::replace(&mut started, true) {
                let (peer, stream) = (peer.clone(), stream.clone());
                let (written, is_over) = (Arc::clone(&written), Arc::clone(&is_over));
                thread::spawn(move || flood(&peer, &stream, line, &written, &is_over));
            }
            Handling::Usual
        });
    },
)];

/// Writes until it is over, many lines at a time.
fn flood(peer: &Peer, stream: &str, line: usize, written: &AtomicU64, is_over: &AtomicBool) {
    let log =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}"#;
    let text = if stream == "logs" { log.to_owned() } else { "x".repeat(line.saturating_sub(1)) };
    let text = format!("{text}\n");
    let text = text.repeat((60 << 10) / text.len() + 1);
    while !is_over.load(Ordering::Relaxed) {
        match stream {
            "stderr" => {
                if std::io::stderr().write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
            _ => peer.write_raw(text.as_bytes()),
        }
        written.fetch_add(text.len() as u64, Ordering::Relaxed);
    }
}
