//! What a child may do, and what its callers get for it: one row per behaviour of the evil child.
//!
//! All rows of a table run at the same time in one daemon, so each row also shows that the others do not
//! affect it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proto_tests::shim::{kind_of, structured};
use proto_tests::{Home, Shim, evil};
use serde_json::{Value, json};

/// The expected answer to a call.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// The child's own answer.
    Echo,
    /// A fault of this kind whose message contains this.
    Fault(&'static str, &'static str),
    /// A fault whose message contains this: the child's end, or that it rests. A child that ends before the call was sent
    /// is started again, until that has failed too often.
    EndedOrResting(&'static str),
    /// Either an echo or a fault of this kind, depending on when the child dies.
    EchoOr(&'static str),
    /// Exactly these bytes after the id.
    Raw(&'static str),
    /// These bytes first after the id.
    Starts(&'static str),
    /// A result with `isError` whose text contains this.
    Mistake(&'static str),
}

use Expect::{Echo, EchoOr, EndedOrResting, Fault, Mistake, Raw, Starts};

/// A behaviour and the expected answers to its calls, in order.
type Row = (&'static str, &'static [Expect]);

const HANDSHAKE: &[Row] = &[
    ("echo", &[Echo, Echo, Echo]),
    ("exit-at-start 1", &[Fault("child_exited", "EVIL_TOKEN is not set")]),
    ("exit-at-start 0", &[Fault("child_exited", "status 0")]),
    ("never-initialize", &[Fault("child_spawn_timeout", "`initialize`")]),
    ("slow-initialize 300", &[Echo]),
    ("initialize-error", &[Fault("child_unusable", "no licence")]),
    ("initialize-null", &[Fault("child_unusable", "`initialize`")]),
    ("initialize-bare", &[Fault("child_unusable", "`initialize`")]),
    ("initialize-nan", &[Fault("child_unusable", "not JSON")]),
    ("exit-in-initialize", &[Fault("child_exited", "`initialize`")]),
    ("exit-after-initialized", &[EndedOrResting("status 0")]),
    ("version 2025-06-18", &[Echo]),
    ("version 2025-03-26", &[Echo]),
    ("version 2024-11-05", &[Echo]),
    ("version 2024-10-07", &[Echo]),
    ("version 1999-01-01", &[Fault("child_unusable", "1999-01-01")]),
    ("needs-initialized", &[Echo]),
    ("early-notifications", &[Echo]),
    ("roots-before-initialize", &[Echo]),
    ("roots-after-initialized", &[Echo]),
    ("follows-roots", &[Echo]),
    ("ping-before-initialize", &[Echo]),
    ("closed-stdout-at-start", &[Fault("child_exited", "closed its output")]),
    ("deaf-from-start", &[Fault("child_spawn_timeout", "`initialize`")]),
    ("chatty-stderr 100", &[Echo, Echo]),
    ("stderr-first 10", &[Echo]),
];

const LISTS: &[Row] = &[
    ("paged-list 3", &[Echo]),
    ("empty-cursor", &[Echo]),
    ("repeated-cursor", &[Echo]),
    ("endless-pages", &[Echo]),
    ("long-list 5", &[Echo]),
    ("long-list 8", &[Fault("child_unusable", "lists more than 6 MiB")]),
    ("list-error", &[Fault("child_unusable", "lost the list")]),
    ("list-null", &[Fault("child_unusable", "`tools/list`")]),
    ("list-no-array", &[Fault("child_unusable", "`tools/list`")]),
    ("list-never", &[Fault("rpc_timeout", "")]),
    ("list-slow 300", &[Echo]),
    ("list-later 300", &[Echo]),
    ("no-schema", &[Echo]),
    ("broken-schema", &[Echo]),
    ("required-default", &[Echo]),
    ("composed-schema", &[Echo]),
    ("schema-null", &[Echo]),
    ("duplicate-tools", &[Echo]),
    ("nameless-tool", &[Echo]),
    ("poisoned-words", &[Echo]),
    ("long-words", &[Echo]),
    ("unlisted-tool", &[Mistake("echo")]),
    ("schema-as-written", &[Echo]),
];

const FRAMING: &[Row] = &[
    ("half-lines", &[Echo]),
    ("content-length", &[Echo, Echo]),
    ("content-length-pretty", &[Echo, Echo]),
    ("content-type", &[Echo, Echo]),
    ("mixed-frames", &[Echo, Echo, Echo]),
    ("noisy-stdout", &[Echo, Echo]),
    ("json-noise", &[Echo, Echo]),
    ("crlf", &[Echo, Echo]),
    ("byte-order-mark", &[Echo]),
    ("padded", &[Echo, Echo]),
    ("banner", &[Echo]),
    ("false-header", &[Echo]),
    ("wrong-length 9", &[Echo, Echo]),
    ("wrong-length -9", &[Fault("child_unusable", "not JSON")]),
    ("id-last", &[Echo, Echo]),
    ("huge-line 17", &[Fault("answer_too_long", "16 MiB"), Fault("answer_too_long", "16 MiB")]),
    ("huge-line-id-last 17", &[Fault("answer_too_long", "16 MiB")]),
    ("huge-frame 17", &[Fault("answer_too_long", "16 MiB")]),
    ("huge-noise 40", &[Echo, Echo]),
];

const ANSWERS: &[Row] = &[
    ("never-answers", &[Fault("rpc_timeout", "echo"), Fault("rpc_timeout", "echo")]),
    ("answers-twice", &[Echo, Echo, Echo]),
    ("unknown-ids", &[Echo, Echo]),
    ("string-ids", &[Echo, Echo]),
    ("float-ids", &[Echo, Echo]),
    ("null-ids", &[Fault("rpc_timeout", "")]),
    ("no-ids", &[Fault("rpc_timeout", "")]),
    ("no-version", &[Fault("child_unusable", "`jsonrpc` must be"), Fault("child_unusable", "`jsonrpc`")]),
    ("logs-like-answers", &[Echo, Echo]),
    ("both-outcomes", &[Fault("child_unusable", "both `result` and `error`")]),
    ("no-outcome", &[Fault("child_unusable", "neither")]),
    ("error-string", &[Raw(r#""error":"boom""#)]),
    (
        "error-with-data",
        &[Raw(r#""error":{"data":{"z":1.0,"a":[null]},"message":"nope","code":-32042,"extra":true}"#)],
    ),
    ("batched", &[Echo, Echo]),
    ("null-result", &[Raw(r#""result":null"#), Raw(r#""result":null"#)]),
    ("deep-json 100000", &[Starts(r#""result":[[[[[["#)]),
    ("invalid-utf8", &[Fault("child_unusable", "not UTF-8")]),
    ("broken-json", &[Fault("child_unusable", "not JSON")]),
    ("null-error", &[Raw(r#""result":{"z":1.0}"#), Raw(r#""result":{"z":1.0}"#)]),
    ("reorders 1", &[Echo]),
    ("late-answers", &[Echo]),
    ("notification-flood 10000", &[Echo, Echo]),
    ("foreign-progress", &[Echo, Echo]),
    ("changes-list-always", &[Echo, Echo]),
    ("deaf", &[Echo, Fault("rpc_timeout", "")]),
    ("slow-answers 50", &[Echo, Echo]),
];

const ASKING: &[Row] = &[
    ("asks-first elicitation", &[Echo]),
    ("asks-first sampling", &[Echo]),
    ("asks-first roots", &[Echo]),
    ("asks-nonsense", &[Echo]),
    ("pings 100", &[Echo]),
    ("asks-unprompted", &[Echo]),
    ("request-flood 5000", &[Echo]),
    ("asks-with-our-ids", &[Echo, Echo]),
];

const DYING: &[Row] = &[
    ("crash-after 1", &[Echo, Fault("child_exited", "one too many"), Echo]),
    ("exit-after-answer", &[Echo, EchoOr("child_exited")]),
    ("exit-0-mid-call", &[Fault("child_exited", "status 0")]),
    ("sigkill-mid-call", &[Fault("child_exited", "signal 9")]),
    ("sigsegv-mid-call", &[Fault("child_exited", "signal 11")]),
    ("stops-mid-call", &[Fault("rpc_timeout", "")]),
    ("half-line-then-death", &[Fault("child_exited", "status 1")]),
    ("last-line-unterminated", &[Echo]),
    ("closes-stdout", &[Fault("child_exited", "closed its output")]),
    // A child whose stdin is closed is replaced; with each one the pause before the next grows.
    ("closes-stdin", &[Echo, Echo, EchoOr("child_resting"), EchoOr("child_resting")]),
    ("ignores-eof", &[Echo]),
    ("ignores-term", &[Echo]),
    ("slow-exit 300", &[Echo]),
    ("crashes-on-cancel", &[Echo]),
    ("dies-once DIES_ONCE", &[Fault("child_exited", "status 9"), Echo]),
    ("forks-at-start", &[Echo]),
    ("forks-and-exits", &[Fault("child_exited", "status 0")]),
    ("forks-and-closes", &[Fault("rpc_timeout", "")]),
];

#[test]
fn handshakes() {
    play(HANDSHAKE);
}

#[test]
fn lists() {
    play(LISTS);
}

#[test]
fn framing() {
    play(FRAMING);
}

#[test]
fn answers() {
    play(ANSWERS);
}

#[test]
fn questions() {
    play(ASKING);
}

#[test]
fn deaths() {
    play(DYING);
}

#[test]
fn every_behaviour_has_a_row() {
    let rows = [HANDSHAKE, LISTS, FRAMING, ANSWERS, ASKING, DYING].concat();
    let tested: BTreeSet<_> =
        rows.iter().map(|(behaviour, _)| behaviour.split(' ').next().unwrap()).collect();
    // Two are not servers; the others have their own tests: transcripts, terminal, orphans, manifests, split, drift and floods.
    let other_tests = BTreeSet::from([
        "annotated",
        "chain-link",
        "chains",
        "escapes",
        "floods",
        "grandchild",
        "prompts-slow",
        "script",
        "stops-guard",
        "tools-of",
    ]);
    let known: BTreeSet<_> = evil::behaviours().map(|behaviour| behaviour.name).collect();
    assert_eq!(&tested | &other_tests, known);
}

fn play(rows: &[Row]) {
    let home = Home::new();
    let once = home.path().join("died-once");
    let mut suites = json!({});
    for (at, (behaviour, expected)) in rows.iter().enumerate() {
        let behaviour = behaviour.replace("DIES_ONCE", once.to_str().unwrap());
        home.child(&child(at), &behaviour.split(' ').collect::<Vec<_>>());
        // Timeouts are short only where a timeout is expected: the machine may be busy.
        if expected.iter().any(|expect| matches!(expect, Fault("rpc_timeout" | "child_spawn_timeout", _))) {
            suites[child(at)] = json!({"timeouts": {"rpcMs": 2500, "childSpawnMs": 2500}});
        } else {
            suites[child(at)] = json!({"timeouts": {"childSpawnMs": 60_000}});
        }
    }
    home.config(&json!({"suites": suites}));
    let daemon = home.daemon();
    let mut shim = home.raw_shim();
    // A host without capabilities: questions are declined for it.
    shim.initialize_as(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
    );

    let mut wrong = String::new();
    for round in 0.. {
        let args = format!(r#"{{"z":{round},"a":1.0}}"#);
        let in_round = |(_, (_, expected)): &(usize, &Row)| round < expected.len();
        let started: Vec<_> = rows
            .iter()
            .enumerate()
            .filter(in_round)
            .map(|(at, row)| (shim.start_call(&child(at), "echo", &args), row))
            .collect();
        if started.is_empty() {
            break;
        }
        for (id, (behaviour, expected)) in started {
            let answer = shim.answer_to(&id.to_string());
            if let Err(why) = judge(expected[round], &answer, id, round) {
                let answer: String = answer.chars().take(600).collect();
                writeln!(wrong, "{behaviour} [{round}]: expected {:?}: {why}\n    {answer}", expected[round])
                    .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}\n{}", daemon.log());
    no_stray_answers(&mut shim);
    assert_eq!(daemon.endpoint().get("/health").status, 200);
}

fn child(at: usize) -> String {
    format!("c{at}")
}

fn judge(expect: Expect, answer: &str, id: u64, round: usize) -> Result<(), String> {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
    let body = || answer.strip_prefix(&head).and_then(|body| body.strip_suffix('}')).ok_or("another head");
    let parsed = || serde_json::from_str::<Value>(answer).map_err(|error| error.to_string());
    let holds = |truth: bool, why: &str| if truth { Ok(()) } else { Err(why.to_owned()) };
    match expect {
        Echo => {
            let parsed = parsed()?;
            let said = &parsed["result"]["structuredContent"];
            holds(*said == json!({"ok": true, "name": "echo", "args": {"z": round, "a": 1.0}}), "no echo")
        }
        EchoOr(kind) => {
            let echoed = parsed()?["result"]["structuredContent"]["ok"] == true;
            holds(echoed || kind_of(answer).as_deref() == Some(kind), "neither")
        }
        EndedOrResting(says) => {
            let kind = if kind_of(answer).as_deref() == Some("child_resting") {
                "child_resting"
            } else {
                "child_exited"
            };
            judge(Fault(kind, says), answer, id, round)
        }
        Raw(expected) => holds(body()? == expected, "other bytes"),
        Starts(expected) => holds(body()?.starts_with(expected), "other bytes"),
        Mistake(says) => {
            let parsed = parsed()?;
            holds(parsed["result"]["isError"] == true, "no isError")?;
            holds(
                parsed["result"]["content"][0]["text"].as_str().unwrap_or_default().contains(says),
                "says it not",
            )
        }
        Fault(kind, says) => {
            let parsed = parsed()?;
            holds(kind_of(answer).as_deref() == Some(kind), "another kind")?;
            let result = &parsed["result"];
            holds(result["isError"] == true, "no result that says `isError`")?;
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            holds(text.contains(says), "says it not")?;
            let about = &result["_meta"]["switchboard"];
            holds(about["child"].is_string() && about["retryable"].is_boolean(), "does not say about whom")
        }
    }
}

/// Every request was answered once: the next answer is the ping's.
fn no_stray_answers(shim: &mut Shim) {
    let id = shim.start_request("ping", "{}");
    loop {
        let line = shim.receive();
        match proto_tests::shim::answer_id(&line) {
            Some(answered) => {
                assert_eq!(answered, id.to_string(), "a stray answer: {line}");
                return;
            }
            None => continue,
        }
    }
}

#[test]
fn a_burst_of_first_calls_starts_one_child() {
    let home = Home::new();
    home.child("one", &["slow-initialize", "200"]);
    let _daemon = home.daemon();
    let mut shims: Vec<_> = (0..4).map(|_| home.shim()).collect();
    let ids: Vec<Vec<_>> = shims
        .iter_mut()
        .map(|shim| (0..8).map(|_| shim.start_call("one", "where", "{}")).collect())
        .collect();
    let mut pids = BTreeSet::new();
    for (shim, ids) in shims.iter_mut().zip(ids) {
        for id in ids {
            pids.insert(structured(&shim.answer_to(&id.to_string()))["pid"].as_u64().unwrap());
        }
    }
    assert_eq!(pids.len(), 1, "{pids:?}");
}
