//! Children that ask questions at the wrong time, or the wrong questions.

use std::thread;

use serde_json::json;

use super::serve::{Handling, answer, serve};
use super::tools::ask;
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new(
        "asks-first",
        "KIND: asks the host before it answers each call, and waits for the answer",
        |peer, args| {
            let kind = args.first().copied().unwrap_or("elicitation").to_owned();
            before_each_call(&peer, move |peer| {
                ask(peer, &kind);
            });
        },
    ),
    Behaviour::new(
        "asks-nonsense",
        "asks for a method that does not exist before it answers each call",
        |peer, _| {
            before_each_call(&peer, |peer| {
                peer.ask("sampling/doTheDishes", "{}");
            });
        },
    ),
    Behaviour::new("pings", "N: pings so many times before it answers each call", |peer, args| {
        let many = number(args, 0, 100);
        before_each_call(&peer, move |peer| {
            for _ in 0..many {
                peer.ask("ping", "{}");
            }
        });
    }),
    Behaviour::new(
        "asks-unprompted",
        "asks the host as soon as it is initialised, with no call in flight",
        |peer, _| {
            serve(&peer, |peer, message| {
                if message.is("notifications/initialized") {
                    let peer = peer.clone();
                    thread::spawn(move || ask(&peer, "elicitation"));
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "request-flood",
        "N: asks so many questions at once and never looks at the answers",
        |peer, args| {
            let many = number(args, 0, 5_000);
            serve(&peer, |peer, message| {
                if message.is("tools/call") {
                    for n in 0..many {
                        peer.send(&format!(r#"{{"jsonrpc":"2.0","id":"flood-{n}","method":"ping"}}"#));
                    }
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new("asks-with-our-ids", "asks with the id of the call it is asked to answer", |peer, _| {
        serve(&peer, |peer, message| {
            if message.is("tools/call") {
                peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, message.id()));
            }
            Handling::Usual
        });
    }),
    Behaviour::new(
        "escapes",
        "everything that it says, lists and asks would draw on a terminal",
        |peer, _| {
            eprintln!("stderr {EVIL}");
            let (tools, asked) = (evil_tools(), evil_question());
            serve(&peer, move |peer, message| {
                if message.is("tools/list") {
                    peer.result(message.id(), &tools);
                    return Handling::Taken;
                }
                if !message.is("tools/call") {
                    return Handling::Usual;
                }
                let (peer, id, asked) = (peer.clone(), message.id().to_owned(), asked.clone());
                thread::spawn(move || {
                    peer.notify("notifications/message", &json!({"level": EVIL, "data": EVIL}).to_string());
                    peer.ask("elicitation/create", &asked);
                    let said = format!("result {EVIL}");
                    peer.result(&id, &json!({"content": [{"type": "text", "text": said}]}).to_string());
                });
                Handling::Taken
            });
        },
    ),
];

/// Clears the screen, sets the title, returns to the start of the line, reorders and hides text.
pub(crate) const EVIL: &str = "\x1b[2J\x1b]0;t\x07\r\u{9b}31m\u{202e}\u{200b}!";

fn evil_tools() -> String {
    let what = format!("first line {EVIL}\nsecond line 👩‍💻");
    json!({"tools": [{
        "name": "x;touch y",
        "description": what,
        "inputSchema": {
            "type": "object",
            "properties": {"a'; touch z #": {"type": EVIL, "description": what}},
            "required": ["a'; touch z #"],
        },
    }]})
    .to_string()
}

fn evil_question() -> String {
    json!({
        "message": format!("asked {EVIL}"),
        "requestedSchema": {
            "type": "object",
            "properties": {"odd": {"type": format!("kind {EVIL}"), "title": EVIL, "default": EVIL}},
        },
    })
    .to_string()
}

/// Questions block, so each call asks them on its own thread.
fn before_each_call(peer: &Peer, question: impl Fn(&Peer) + Clone + Send + 'static) {
    serve(peer, |peer, message| {
        if !message.is("tools/call") {
            return Handling::Usual;
        }
        let (peer, message, question) = (peer.clone(), message.clone(), question.clone());
        thread::spawn(move || {
            question(&peer);
            answer(&peer, &message);
        });
        Handling::Taken
    });
}
