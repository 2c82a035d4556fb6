//! Failures before the first call.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::peer::Incoming;
use super::serve::{Handling, answer, bend, initialize_result, serve, usual};
use super::tools::{close_stdout, forever};
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new(
        "exit-at-start",
        "STATUS: complains on stderr and exits before reading anything",
        |_, args| {
            eprintln!("evil child: EVIL_TOKEN is not set");
            std::process::exit(i32::try_from(number(args, 0, 1)).unwrap_or(1));
        },
    ),
    Behaviour::new("never-initialize", "reads everything and never answers initialize", |peer, _| {
        bend(&peer, "initialize", |_, _| {});
    }),
    Behaviour::new("slow-initialize", "MS: answers initialize after so many milliseconds", |peer, args| {
        let pause = Duration::from_millis(number(args, 0, 1000));
        bend(&peer, "initialize", |peer, message| {
            thread::sleep(pause);
            answer(peer, message);
        });
    }),
    Behaviour::new("initialize-error", "answers initialize with an error", |peer, _| {
        bend(&peer, "initialize", |peer, message| {
            peer.error(message.id(), r#"{"code":-32603,"message":"no licence"}"#);
        });
    }),
    Behaviour::new("initialize-null", "answers initialize with a null result", |peer, _| {
        bend(&peer, "initialize", |peer, message| peer.result(message.id(), "null"));
    }),
    Behaviour::new("initialize-bare", "answers initialize with a version and nothing else", |peer, _| {
        bend(&peer, "initialize", |peer, message| {
            peer.result(message.id(), r#"{"protocolVersion":"2025-11-25"}"#);
        });
    }),
    Behaviour::new(
        "initialize-nan",
        "answers initialize with a number that JSON does not have",
        |peer, _| {
            bend(&peer, "initialize", |peer, message| {
                peer.write_raw(
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"x\":NaN}}}}\n", message.id())
                        .as_bytes(),
                );
            });
        },
    ),
    Behaviour::new("exit-in-initialize", "exits with status 0 when it is asked to initialize", |peer, _| {
        serve(&peer, leave_at("initialize"));
    }),
    Behaviour::new(
        "exit-after-initialized",
        "exits with status 0 as soon as the handshake is done",
        |peer, _| {
            serve(&peer, leave_at("notifications/initialized"));
        },
    ),
    Behaviour::new(
        "version",
        "VERSION: answers with this protocol version whatever was asked",
        |peer, args| {
            let version = format!("\"{}\"", args.first().unwrap_or(&"2025-11-25"));
            bend(&peer, "initialize", |peer, message| {
                peer.result(message.id(), &initialize_result(&version));
            });
        },
    ),
    Behaviour::new(
        "needs-initialized",
        "exits with status 4 on any request before notifications/initialized",
        |peer, _| {
            let mut ready = false;
            serve(&peer, |_, message| {
                ready |= message.is("notifications/initialized");
                if !ready && message.id.is_some() && !message.is("initialize") {
                    std::process::exit(4);
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "early-notifications",
        "sends list_changed and logs before its answer to initialize",
        |peer, _| {
            bend(&peer, "initialize", |peer, message| {
                peer.notify("notifications/tools/list_changed", "{}");
                peer.notify("notifications/message", r#"{"level":"info","data":"up"}"#);
                peer.notify("notifications/never/heard/of", "{}");
                answer(peer, message);
            });
        },
    ),
    Behaviour::new(
        "roots-before-initialize",
        "asks for the roots and waits for them before it answers initialize",
        |peer, _| {
            serve(&peer, |peer, message| {
                if !message.is("initialize") {
                    return Handling::Usual;
                }
                let (peer, message) = (peer.clone(), message.clone());
                thread::spawn(move || {
                    peer.ask("roots/list", "{}");
                    answer(&peer, &message);
                });
                Handling::Taken
            });
        },
    ),
    Behaviour::new(
        "roots-after-initialized",
        "asks for the roots after initialized and serves nothing until they came",
        |peer, _| {
            let mut held: Option<thread::JoinHandle<()>> = None;
            serve(&peer, |peer, message| {
                if message.is("notifications/initialized") {
                    let peer = peer.clone();
                    held = Some(thread::spawn(move || {
                        peer.ask("roots/list", "{}");
                    }));
                    return Handling::Taken;
                }
                // The answer may be the very next line, so only a request that arrived before it has to wait.
                if held.as_ref().is_some_and(|held| !held.is_finished()) {
                    let (peer, message) = (peer.clone(), message.clone());
                    let held = held.take();
                    thread::spawn(move || {
                        let _ = held.map(thread::JoinHandle::join);
                        answer(&peer, &message);
                    });
                    return Handling::Taken;
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "follows-roots",
        "asks for the roots after initialized and whenever they change, serves at once; the tool `folders` tells them",
        |peer, _| {
            let known = Arc::new(Mutex::new("none yet".to_owned()));
            serve(&peer, |peer, message| {
                if message.is("notifications/initialized") || message.is("notifications/roots/list_changed") {
                    // Asks before it answers anything else, as the official SDKs do.
                    let (answer, known) = (peer.begin_asking("roots/list", "{}"), known.clone());
                    thread::spawn(move || {
                        let answer = answer.recv().unwrap_or_default();
                        // Like a server that first looks at each directory; far less than the daemon waits for that.
                        thread::sleep(Duration::from_millis(5));
                        *known.lock().unwrap() = answer;
                    });
                    return Handling::Taken;
                }
                if message.is("tools/call") && message.param("name").as_deref() == Some("\"folders\"") {
                    let text = serde_json::json!(*known.lock().unwrap());
                    peer.result(message.id(), &format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#));
                    return Handling::Taken;
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "ping-before-initialize",
        "pings and waits for the answer before it answers initialize",
        |peer, _| {
            serve(&peer, |peer, message| {
                if !message.is("initialize") {
                    return Handling::Usual;
                }
                let (peer, message) = (peer.clone(), message.clone());
                thread::spawn(move || {
                    peer.ask("ping", "{}");
                    answer(&peer, &message);
                });
                Handling::Taken
            });
        },
    ),
    Behaviour::new("closed-stdout-at-start", "closes stdout at once and lives on", |peer, _| {
        close_stdout();
        peer.drain();
        forever();
    }),
    Behaviour::new("deaf-from-start", "never reads a byte", |_, _| forever()),
    Behaviour::new(
        "chatty-stderr",
        "MB: writes so many megabytes to stderr as fast as it can while it serves",
        |peer, args| {
            let megabytes = number(args, 0, 100);
            thread::spawn(move || {
                let chunk = "evil child: nothing of interest happened here\n".repeat(22_311);
                let mut stderr = std::io::stderr().lock();
                for _ in 0..megabytes {
                    if stderr.write_all(chunk.as_bytes()).is_err() {
                        return;
                    }
                }
            });
            serve(&peer, usual);
        },
    ),
    Behaviour::new(
        "stderr-first",
        "MB: writes so many megabytes to stderr before it reads anything",
        |peer, args| {
            let chunk = vec![b'x'; 1 << 20];
            for _ in 0..number(args, 0, 10) {
                let _ = std::io::stderr().write_all(&chunk);
            }
            let _ = std::io::stderr().write_all(b"\nevil child: there\n");
            serve(&peer, usual);
        },
    ),
];

fn leave_at(method: &'static str) -> impl FnMut(&Peer, &Incoming) -> Handling {
    move |_, message| if message.is(method) { Handling::Leave } else { Handling::Usual }
}
