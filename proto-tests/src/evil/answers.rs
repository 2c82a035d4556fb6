//! Wrong answers to calls.

use std::thread;
use std::time::Duration;

use super::peer::Incoming;
use super::serve::{Handling, answer, bend, serve};
use super::tools::{echo, forever};
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new("never-answers", "reads calls and never answers them", |peer, _| calls(&peer, |_, _| {})),
    Behaviour::new("answers-twice", "answers each call twice", |peer, _| {
        calls(&peer, |peer, message| {
            usual(peer, message);
            peer.result(message.id(), r#"{"content":[{"type":"text","text":"the second answer"}]}"#);
        });
    }),
    Behaviour::new("unknown-ids", "answers calls that nobody made before each answer", |peer, _| {
        calls(&peer, |peer, message| {
            for id in ["424242", "\"nobody\"", "-1", "0", "1e400", "null"] {
                peer.result(id, r#"{"content":[{"type":"text","text":"for nobody"}]}"#);
            }
            usual(peer, message);
        });
    }),
    Behaviour::new("string-ids", "answers number ids as strings", |peer, _| {
        calls(&peer, |peer, message| {
            peer.result(&format!("\"{}\"", message.id()), &echo(&message.tool(), &message.arguments()));
        });
    }),
    Behaviour::new("float-ids", "answers 7 as 7.0", |peer, _| {
        calls(&peer, |peer, message| {
            peer.result(&format!("{}.0", message.id()), &echo(&message.tool(), &message.arguments()));
        });
    }),
    Behaviour::new("null-ids", "answers calls with the id null", |peer, _| {
        calls(&peer, |peer, message| peer.result("null", &echo(&message.tool(), &message.arguments())));
    }),
    Behaviour::new("no-ids", "answers calls without an id", |peer, _| {
        calls(&peer, |peer, message| {
            peer.send(&format!(
                r#"{{"jsonrpc":"2.0","result":{}}}"#,
                echo(&message.tool(), &message.arguments())
            ));
        });
    }),
    Behaviour::new("no-version", "leaves `jsonrpc` out of its answers to calls", |peer, _| {
        calls(&peer, |peer, message| {
            let result = echo(&message.tool(), &message.arguments());
            peer.send(&format!(r#"{{"id":{},"result":{result}}}"#, message.id()));
        });
    }),
    Behaviour::new(
        "logs-like-answers",
        "logs JSON with the id of a call to stdout before each answer",
        |peer, _| {
            calls(&peer, |peer, message| {
                let id = message.id();
                peer.send(&format!(r#"{{"level":"warn","id":{id},"error":"retrying"}}"#));
                peer.send(&format!(r#"{{"id":{id},"error":"retrying","level":"warn"}}"#));
                usual(peer, message);
            });
        },
    ),
    Behaviour::new("both-outcomes", "answers calls with a result and an error at once", |peer, _| {
        calls(&peer, |peer, message| {
            peer.send(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{}},"error":{{"code":1,"message":"both"}}}}"#,
                message.id()
            ));
        });
    }),
    Behaviour::new("null-error", "answers calls with a result and an error that is null", |peer, _| {
        calls(&peer, |peer, message| {
            peer.send(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":null,"result":{{"z":1.0}}}}"#,
                message.id()
            ));
        });
    }),
    Behaviour::new("no-outcome", "answers calls with neither result nor error", |peer, _| {
        calls(&peer, |peer, message| peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, message.id())));
    }),
    Behaviour::new("error-string", "answers calls with an error that is a string", |peer, _| {
        calls(&peer, |peer, message| peer.error(message.id(), "\"boom\""));
    }),
    Behaviour::new("error-with-data", "answers calls with an error that carries data", |peer, _| {
        calls(&peer, |peer, message| {
            peer.error(
                message.id(),
                r#"{"data":{"z":1.0,"a":[null]},"message":"nope","code":-32042,"extra":true}"#,
            );
        });
    }),
    Behaviour::new("batched", "answers calls with an array of one answer", |peer, _| {
        calls(&peer, |peer, message| {
            let result = echo(&message.tool(), &message.arguments());
            peer.send(&format!(r#"[{{"jsonrpc":"2.0","id":{},"result":{result}}}]"#, message.id()));
        });
    }),
    Behaviour::new("null-result", "answers calls with null", |peer, _| {
        calls(&peer, |peer, message| peer.result(message.id(), "null"));
    }),
    Behaviour::new("deep-json", "DEPTH: answers calls with so many nested arrays", |peer, args| {
        let depth = usize::try_from(number(args, 0, 100_000)).unwrap_or(0);
        calls(&peer, |peer, message| {
            peer.result(message.id(), &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        });
    }),
    Behaviour::new("invalid-utf8", "answers calls with a text that is no UTF-8", |peer, _| {
        calls(&peer, |peer, message| {
            let mut bytes = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":""#,
                message.id()
            )
            .into_bytes();
            bytes.extend_from_slice(b"\xff\xc3\x28\xed\xa0\x80\"}]}}\n");
            peer.write_raw(&bytes);
        });
    }),
    Behaviour::new("broken-json", "answers calls with JSON that is cut off before its end", |peer, _| {
        calls(&peer, |peer, message| {
            peer.write_raw(
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[\n", message.id())
                    .as_bytes(),
            );
        });
    }),
    Behaviour::new("reorders", "N: keeps so many calls and answers the last one first", |peer, args| {
        let batch = usize::try_from(number(args, 0, 2)).unwrap_or(2);
        let mut kept: Vec<Incoming> = Vec::new();
        calls(&peer, move |peer, message| {
            kept.push(message.clone());
            if kept.len() == batch {
                kept.drain(..).rev().for_each(|message| usual(peer, &message));
            }
        });
    }),
    Behaviour::new("late-answers", "answers calls only after they were cancelled", |peer, _| {
        let mut kept: Vec<Incoming> = Vec::new();
        serve(&peer, |peer, message| {
            if message.is("tools/call") && message.tool() == "hang" {
                kept.push(message.clone());
                return Handling::Taken;
            }
            if message.is("notifications/cancelled") {
                kept.drain(..).for_each(|message| usual(peer, &message));
            }
            Handling::Usual
        });
    }),
    Behaviour::new(
        "notification-flood",
        "N: sends so many notifications before each answer to a call",
        |peer, args| {
            let many = number(args, 0, 10_000);
            calls(&peer, |peer, message| {
                for n in 0..many {
                    peer.notify("notifications/message", &format!(r#"{{"level":"debug","data":{n}}}"#));
                }
                usual(peer, message);
            });
        },
    ),
    Behaviour::new(
        "foreign-progress",
        "tells progress for tokens that nobody gave, and after its answer",
        |peer, _| {
            calls(&peer, |peer, message| {
                for token in ["999999", "\"nobody\"", "null", "{}"] {
                    peer.notify(
                        "notifications/progress",
                        &format!(r#"{{"progressToken":{token},"progress":1}}"#),
                    );
                }
                usual(peer, message);
                if let Some(token) = message.progress_token() {
                    peer.notify(
                        "notifications/progress",
                        &format!(r#"{{"progressToken":{token},"progress":2}}"#),
                    );
                }
            });
        },
    ),
    Behaviour::new("changes-list-always", "says that its lists changed after each call", |peer, _| {
        calls(&peer, |peer, message| {
            usual(peer, message);
            for kind in ["tools", "prompts", "resources"] {
                peer.notify(&format!("notifications/{kind}/list_changed"), "{}");
            }
        });
    }),
    Behaviour::new("deaf", "answers the first call, then never reads again", |peer, _| {
        calls(&peer, |peer, message| {
            usual(peer, message);
            forever();
        });
    }),
    Behaviour::new(
        "slow-answers",
        "MS: answers each call after so many milliseconds, one after the other",
        |peer, args| {
            let pause = Duration::from_millis(number(args, 0, 100));
            calls(&peer, |peer, message| {
                thread::sleep(pause);
                usual(peer, message);
            });
        },
    ),
];

/// Overrides the handling of calls.
fn calls(peer: &Peer, bent: impl FnMut(&Peer, &Incoming)) {
    bend(peer, "tools/call", bent);
}

fn usual(peer: &Peer, message: &Incoming) {
    answer(peer, message);
}
