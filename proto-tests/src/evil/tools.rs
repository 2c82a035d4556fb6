//! The tools of the well-behaved server; most of them cause trouble on request.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::grandchild;
use super::peer::{Incoming, Peer};

/// Name, required arguments and description.
const TOOLS: &[(&str, &[&str], &str)] = &[
    ("echo", &[], "Gives its arguments back as they came."),
    ("slow", &["ms"], "Answers after so many milliseconds; a cancelled one never."),
    ("hang", &[], "Never answers."),
    ("progress", &["steps"], "Tells its progress in so many steps, then answers."),
    ("log", &[], "Sends a log message, then answers."),
    (
        "ask",
        &["kind"],
        "Asks the host (elicitation, sampling, roots or anything else) and gives the whole answer.",
    ),
    (
        "say",
        &["text"],
        "Writes the text as it is, with $ID and $FILL filled in; `answers` if it is to answer.",
    ),
    ("fork", &[], "Starts grandchildren of every kind and gives their pids."),
    ("env", &[], "Gives its environment."),
    ("where", &[], "Gives its pid, arguments and working directory."),
    ("big", &["bytes"], "Gives a text of so many bytes."),
    ("null", &[], "Its result is null."),
    ("raw", &["json"], "Its result is exactly the given text."),
    ("raise", &["json"], "Its error is exactly the given text."),
    ("count", &[], "How many calls came in, this one included."),
    ("received", &[], "Every line it received."),
    ("crash", &[], "Says why on stderr and exits with status 3."),
    ("die", &["code"], "Exits with the given status."),
    ("stderr", &["text"], "Writes to stderr, then answers."),
    ("change", &[], "Has a tool more from now on and says so."),
    ("eat", &["mb"], "Takes so many megabytes of memory and keeps them."),
    ("close-stdout", &[], "Closes stdout and lives on."),
    ("stop-reading", &[], "Answers, then never reads again."),
];

pub(crate) fn list(changed: bool) -> String {
    let mut tools: Vec<Value> =
        TOOLS.iter().map(|(name, required, says)| tool(name, required, says)).collect();
    tools.push(strict());
    if changed {
        tools.push(tool("grown", &[], "Was not there before."));
    }
    json!({"tools": tools}).to_string()
}

pub(crate) fn tool(name: &str, required: &[&str], says: &str) -> Value {
    let properties: BTreeMap<_, _> = required.iter().map(|name| (*name, json!({}))).collect();
    json!({
        "name": name,
        "description": says,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
    })
}

/// A tool that forbids additional properties.
fn strict() -> Value {
    json!({
        "name": "strict",
        "description": "Takes `need` and `may`, nothing else.",
        "inputSchema": {
            "type": "object",
            "properties": {"need": {"type": "string"}, "may": {"type": "string"}},
            "required": ["need"],
            "additionalProperties": false,
        },
    })
}

pub(crate) fn call(peer: &Peer, message: &Incoming) {
    let count = peer.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let (id, args) = (message.id(), message.arguments());
    let given: Value = serde_json::from_str(&args).unwrap_or_default();
    match message.tool().as_str() {
        name @ ("echo" | "strict" | "grown") => peer.result(id, &echo(name, &args)),
        "slow" => later(peer, message, move |peer, message| {
            thread::sleep(Duration::from_millis(given["ms"].as_u64().unwrap_or(0)));
            if !peer.cancelled.lock().unwrap().contains(message.id()) {
                peer.result(message.id(), &echo("slow", &message.arguments()));
            }
        }),
        "hang" => {}
        "progress" => later(peer, message, move |peer, message| progress(peer, message, &given)),
        "log" => {
            let data = if given["mark"].is_null() { &json!("something happened") } else { &given["mark"] };
            peer.notify(
                "notifications/message",
                &format!(r#"{{"level":"info","logger":"evil","data":{data}}}"#),
            );
            peer.result(id, &echo("log", &args));
        }
        "say" => {
            let fill = if args.contains("$FILL") { "x".repeat(17 << 20) } else { String::new() };
            let said = given["text"].as_str().unwrap_or_default().replace("$ID", id).replace("$FILL", &fill);
            // Each character becomes one byte, so that invalid UTF-8 can be written too.
            peer.write_raw(&said.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect::<Vec<_>>());
            if given["answers"] == true {
                peer.result(id, &echo("say", r#""said""#));
            }
        }
        "ask" => later(peer, message, move |peer, message| {
            thread::sleep(Duration::from_millis(given["ms"].as_u64().unwrap_or(0)));
            let answer = ask(peer, given["kind"].as_str().unwrap_or_default());
            peer.result(message.id(), &text(&answer));
        }),
        "fork" => later(peer, message, |peer, message| {
            peer.result(message.id(), &structured(&json!({"pids": grandchild::start_all()})));
        }),
        "env" => peer.result(id, &structured(&json!(std::env::vars().collect::<BTreeMap<_, _>>()))),
        "where" => peer.result(
            id,
            &structured(&json!({
                "pid": std::process::id(),
                "args": std::env::args().collect::<Vec<_>>(),
                "cwd": std::env::current_dir().unwrap_or_default(),
            })),
        ),
        "big" => {
            let bytes = usize::try_from(given["bytes"].as_u64().unwrap_or(0)).unwrap_or(0);
            peer.result(id, &text(&"x".repeat(bytes)));
        }
        "null" => peer.result(id, "null"),
        "raw" => peer.result(id, given["json"].as_str().unwrap_or("null")),
        "raise" => peer.error(id, given["json"].as_str().unwrap_or("null")),
        "count" => peer.result(id, &structured(&json!({"count": count, "pid": std::process::id()}))),
        "received" => {
            let lines = peer.received.lock().unwrap().clone();
            peer.result(id, &structured(&json!({"lines": lines})));
        }
        "crash" => {
            eprintln!("evil child: crash was asked for");
            std::process::exit(3);
        }
        "die" => std::process::exit(i32::try_from(given["code"].as_i64().unwrap_or(0)).unwrap_or(1)),
        "stderr" => {
            eprintln!("{}", given["text"].as_str().unwrap_or_default());
            peer.result(id, &echo("stderr", &args));
        }
        "change" => {
            peer.changed.store(true, Ordering::Relaxed);
            peer.notify("notifications/tools/list_changed", "{}");
            peer.result(id, &echo("change", &args));
        }
        "eat" => {
            // Written to, so that the memory is really allocated.
            let bytes = usize::try_from(given["mb"].as_u64().unwrap_or(0)).unwrap_or(0) << 20;
            peer.eaten.lock().unwrap().push(vec![1; bytes]);
            peer.result(id, &echo("eat", &args));
        }
        "close-stdout" => close_stdout(),
        "stop-reading" => {
            peer.result(id, &echo("stop-reading", &args));
            forever();
        }
        name => {
            peer.error(id, &json!({"code": -32602, "message": format!("unknown tool {name}")}).to_string())
        }
    }
}

/// The result of `echo`: the tool's name and arguments.
pub(crate) fn echo(name: &str, args: &str) -> String {
    let said = format!(r#"{{"ok":true,"name":"{name}","args":{args}}}"#);
    let quoted = Value::from(said.as_str());
    format!(r#"{{"content":[{{"type":"text","text":{quoted}}}],"structuredContent":{said}}}"#)
}

fn text(said: &str) -> String {
    json!({"content": [{"type": "text", "text": said}]}).to_string()
}

fn structured(said: &Value) -> String {
    json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said}).to_string()
}

/// Runs a slow call on its own thread, so that it does not block other calls.
fn later(peer: &Peer, message: &Incoming, work: impl FnOnce(&Peer, &Incoming) + Send + 'static) {
    let (peer, message) = (peer.clone(), message.clone());
    thread::spawn(move || work(&peer, &message));
}

fn progress(peer: &Peer, message: &Incoming, given: &Value) {
    let steps = given["steps"].as_u64().unwrap_or(1);
    let pause = Duration::from_millis(given["ms"].as_u64().unwrap_or(0));
    let mark = given["mark"].as_str().map_or(String::new(), |mark| format!(r#","message":{}"#, json!(mark)));
    if let Some(token) = message.progress_token() {
        for step in 1..=steps {
            thread::sleep(pause);
            peer.notify(
                "notifications/progress",
                &format!(r#"{{"progressToken":{token},"progress":{step},"total":{steps}{mark}}}"#),
            );
        }
    }
    peer.result(message.id(), &echo("progress", &message.arguments()));
}

pub(crate) fn ask(peer: &Peer, kind: &str) -> String {
    match kind {
        "elicitation" => peer.ask(
            "elicitation/create",
            r#"{"message":"how old?","requestedSchema":{"type":"object","properties":{"age":{"type":"integer"}}}}"#,
        ),
        "sampling" => peer.ask(
            "sampling/createMessage",
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"hm?"}}],"maxTokens":10}"#,
        ),
        "roots" => peer.ask("roots/list", "{}"),
        other => peer.ask(other, "{}"),
    }
}

/// Replaces stdout with /dev/null: the daemon sees the end of the pipe.
pub(crate) fn close_stdout() {
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    rustix::stdio::dup2_stdout(&null).expect("a stdout to replace");
}

/// Sleeps longer than any test runs, but not for ever, in case a test leaves it behind.
pub(crate) fn forever() -> ! {
    thread::sleep(Duration::from_secs(300));
    std::process::exit(0);
}
