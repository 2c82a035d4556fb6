//! Secret values reach their child, and nothing that a user, a host or a log is shown.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use proto_tests::proof::counted;
use proto_tests::shim::structured;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Project, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

/// Part of every value that must not be shown.
const CANARY: &str = "canary";

/// A home with a secret, an env file and a profile, all of which hold canaries.
fn home_with_values() -> Home {
    let home = Home::new();
    let profile = format!(
        "export DBUS_SESSION_BUS_ADDRESS=unix:path={}/no-bus\nexport PATH=/usr/bin:/bin\nexport SHELL_VALUE=canary-shell\n",
        home.mark()
    );
    home.write(".profile", &profile);
    let file = home.write(".config/switchboard/env", "PERSONAL_VALUE=canary-personal\n");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut set = Command::new(&bins().switchboard)
        .args(["secret", "set", "SECRET_VALUE"])
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/no-bus", home.mark()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    set.stdin.take().unwrap().write_all(b"canary-secret").unwrap();
    assert!(set.wait().unwrap().success());
    home
}

/// An entry that gets a canary in every possible way. `n` makes different versions of it.
fn entry(home: &Home, n: u8) -> Value {
    let literal = format!("canary-literal-{n}");
    let env = [
        ("LITERAL_TOKEN", literal.as_str()),
        ("BY_SECRET", "${SECRET_VALUE}"),
        ("BY_FILE", "${PERSONAL_VALUE}"),
        ("BY_SHELL", "x${env:SHELL_VALUE}y"),
    ];
    let mut entry =
        home.entry(&bins().evil_child, &["echo", "${SECRET_VALUE}", "--key=${SHELL_VALUE}"], &env);
    entry["envFile"] = "variables".into();
    entry["passEnv"] = json!(["PERSONAL_VALUE"]);
    entry
}

/// How many values one server is given.
const MANY: usize = 60;

/// Variables of every usual name, each with its own value.
fn many_variables(home: &Home) -> Value {
    let kinds = ["API_KEY", "TOKEN", "SECRET", "PASSWORD"];
    let shapes = [
        "canary-N",
        "Bearer canary-N",
        "https://user:canary-N@example.com/",
        "{\"key\": \"canary-N\"}",
        "\u{1b}[31mcanary-N\ncanary-N",
    ];
    let variables = (0..MANY).map(|number| {
        let value = shapes[number % shapes.len()].replace('N', &number.to_string());
        (format!("{}_{number}", kinds[number % kinds.len()]), Value::from(value))
    });
    let mut env: serde_json::Map<_, _> = variables.collect();
    env.insert("SWITCHBOARD_TEST".to_owned(), home.mark().into());
    env.into()
}

/// Entries that fail at every step of a start, each with canaries in it.
fn troubled(home: &Home) -> Value {
    let env = json!({"LITERAL_TOKEN": "canary-literal", "BY_SECRET": "${SECRET_VALUE}", "SWITCHBOARD_TEST": home.mark()});
    let evil = &bins().evil_child;
    json!({
        "crashes": {"command": evil, "args": ["exit-at-start", "${SECRET_VALUE}"], "env": env},
        "mute": {"command": "/bin/true", "args": ["${SECRET_VALUE}"], "env": env},
        "nowhere": {"command": "no-such-program", "args": ["${SECRET_VALUE}"], "env": env},
        "lost": {"command": evil, "args": ["${SECRET_VALUE}"], "env": env, "cwd": "/nonexistent"},
        "gap": {"command": evil, "args": ["${SECRET_VALUE}", "${NOT_SET}"], "env": env},
        "many": {"command": evil, "args": ["exit-at-start"], "env": many_variables(home)},
        "odd": {"command": evil, "env": {"A": ["canary-literal"], "B": {"x": "canary-literal"}}},
        "unknown": {"command": evil, "env": env, "token": "canary-literal"},
        "twice": {"command": evil, "url": "https://example.com/canary-literal"},
        "path": {"command": "no-such-program", "env": {"PATH": "/canary-literal/bin"}},
        "remote": {
            "type": "http",
            "url": "https://user:canary-literal@example.com/mcp?key=canary-literal&t=${SECRET_VALUE}",
            "headers": {"Authorization": "Bearer canary-literal", "X": "${SECRET_VALUE}"},
        },
        "sse": {"type": "sse", "url": "http://canary-literal@example.com/", "headers": {"a b": "canary-literal"}},
    })
}

const NAMES: [&str; 12] =
    ["crashes", "many", "mute", "nowhere", "lost", "gap", "odd", "unknown", "twice", "path", "remote", "sse"];

#[track_caller]
fn is_clean(what: &str, text: &str) {
    if let Some(at) = text.find(CANARY) {
        let from = text[..at].char_indices().rev().nth(300).map_or(0, |(from, _)| from);
        panic!("{what} shows a value: …{}", &text[from..(at + 30).min(text.len())]);
    }
}

/// Checks that the output of these commands contains no secret.
fn commands_are_clean(home: &Home, commands: &[&[&str]]) {
    for command in commands {
        let output = home.command(command);
        is_clean(&format!("{command:?}"), &String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
}

/// Checks what the server's own route and these commands show of it.
fn server_is_clean(home: &Home, daemon: &DaemonProcess, name: &str, commands: &[&[&str]]) {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    is_clean(name, &daemon.endpoint().post(&format!("/proxy/{name}"), initialize).text());
    commands_are_clean(home, commands);
}

/// Checks the log, and what the daemon and the commands show of all servers.
fn is_clean_as_a_whole(home: &Home, daemon: &DaemonProcess) {
    for target in ["/status", "/suites", "/proxy", "/metrics"] {
        is_clean(target, &daemon.endpoint().get(target).text());
    }
    commands_are_clean(
        home,
        &[
            &["status"],
            &["status", "--json"],
            &["calls"],
            &["calls", "--json"],
            &["ls"],
            &["doctor"],
            &["--dry-run"],
        ],
    );
    is_clean("the log", &daemon.log());
}

/// Asks the daemon and its commands for everything they show.
fn look_everywhere(home: &Home, daemon: &DaemonProcess, project: &Project<'_>, shim: &mut Shim) {
    let all = NAMES.iter().copied().chain(["k", "w"]);
    for name in all.clone() {
        for action in [r#""action":"call","subtool":"echo","args":{}"#, r#""action":"introspect""#] {
            let params = format!(r#"{{"name":"{name}_suite","arguments":{{{action}}}}}"#);
            is_clean(name, &shim.request("tools/call", &params));
        }
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let target = format!("/proxy/{name}?{}", project.named());
        is_clean(&target, &daemon.endpoint().post(&target, initialize).text());
        is_clean("logs", &format!("{:?}", home.command(&["logs", name])));
    }
    is_clean("tools/list", &shim.request("tools/list", "{}"));
    for target in ["/status", "/suites", "/proxy", "/metrics"] {
        is_clean(target, &daemon.endpoint().get(target).text());
        is_clean(target, &daemon.endpoint().get(&format!("{target}?{}", project.named())).text());
    }
    let file = home.config_folder().join("mcps/all/.mcp.json");
    let check = ["check", file.to_str().unwrap()];
    for order in [
        &["status"][..],
        &["status", "--json"],
        &["allow", "--list"],
        &["allow", "--list", "--json"],
        &["reload"],
        &["secret", "ls"],
        &check,
        &["--dry-run"],
    ] {
        let output = home.command(order);
        is_clean(&format!("{order:?}"), &String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
    is_clean("the log", &daemon.log());
}

#[test]
fn no_value_is_ever_shown() {
    let home = home_with_values();
    home.definition("k", &json!({"mcpServers": {"k": entry(&home, 1)}}).to_string());
    home.write(".config/switchboard/mcps/k/variables", "IN_FILE=canary-file\nIN_FILE_TOKEN=canary-file\n");
    home.definition("all", &json!({"mcpServers": troubled(&home)}).to_string());
    home.definition(
        "broken",
        r#"{"mcpServers": {"x": {"command": "true", "env": {"A": "canary-literal" oops}}}}"#,
    );
    home.definition("env", r#"{"mcpServers": {"y": {"command": "true", "envFile": "variables"}}}"#);
    home.write(".config/switchboard/mcps/env/variables", "A=1\ncanary-literal without a name\n");
    home.config(&json!({"suites": {"k": {"redact": ["password"]}}}));
    let project = home.project("work");
    project.define("w", &entry(&home, 1));
    project.write("mcps/w/variables", "IN_FILE_TOKEN=canary-file\nNEUTRAL=canary0123456789abcdef\n");
    let env = [("LOG_LEVEL", "trace")];
    let daemon = DaemonProcess::start_with(&home, &["--listen", "off"], &env);
    let mut shim = project.mute_shim();
    look_everywhere(&home, &daemon, &project, &mut shim);
    // A user who is asked, on a terminal or in a host, sees names only.
    let asks = |screen: &str| {
        is_clean("allow", screen);
        for name in ["BY_SECRET", "LITERAL_TOKEN", "IN_FILE_TOKEN", "SECRET_VALUE", "PERSONAL_VALUE"] {
            assert!(screen.contains(name), "{name}: {screen}");
        }
    };
    asks(&project.on_terminal(&["allow"], "n\n").text);
    let mut asking = project.shim();
    let id = asking.start_call("w", "echo", "{}");
    let question = asking.notification("elicitation/create");
    asks(question["params"]["message"].as_str().unwrap());
    asking.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"cancel"}}}}"#, question["id"]));
    is_clean("held", &asking.answer_to(&id.to_string()));
    project.allow();
    // The children get all values.
    for child in ["k", "w"] {
        let env = structured(&shim.call(child, "env", "{}"));
        for (name, value) in [
            ("LITERAL_TOKEN", "canary-literal-1"),
            ("BY_SECRET", "canary-secret"),
            ("BY_FILE", "canary-personal"),
            ("BY_SHELL", "xcanary-shelly"),
            ("IN_FILE_TOKEN", "canary-file"),
            ("PERSONAL_VALUE", "canary-personal"),
        ] {
            assert_eq!(env[name], value, "{child}: {name}");
        }
        let args = structured(&shim.call(child, "where", "{}"))["args"].clone();
        assert_eq!((&args[2], &args[3]), (&json!("canary-secret"), &json!("--key=canary-shell")));
    }
    shim.call("k", "echo", r#"{"password":"canary-argument"}"#);
    look_everywhere(&home, &daemon, &project, &mut shim);
    // An update is shown by names, too.
    project.define("w", &entry(&home, 2));
    project.write("mcps/w/variables", "IN_FILE_TOKEN=canary-other\n");
    until_true("the update", TEST_TIMEOUT, || daemon.suite_from(project.path(), "w")["waiting"].is_string());
    let screen = project.on_terminal(&["allow"], "n\n").text;
    assert!(screen.contains("another value for variable LITERAL_TOKEN"), "{screen}");
    is_clean("the update", &screen);
    look_everywhere(&home, &daemon, &project, &mut shim);
    drop(daemon);
    counted("S5", "values that were looked for everywhere", MANY as u64 + 12);
    // Apart from the two private files that must hold values, no stored file does.
    kept(&home.state_folder());
}

/// Servers that echo everything they are sent, and servers that cannot be reached: with a secret in the path,
/// in the whole URL, in a header, in the host name, and as a literal in the path.
#[test]
fn no_part_of_a_destination_is_ever_shown() {
    let home = home_with_values();
    let port = echoing_server();
    let file = home.config_folder().join("env");
    fs::write(
        &file,
        format!("PERSONAL_VALUE=canary-personal\nWHOLE=http://127.0.0.1:{port}/s/canary-whole/x\n"),
    )
    .unwrap();
    let at = |path: &str| json!({"type": "http", "url": format!("http://127.0.0.1:{port}{path}")});
    let with = |mut entry: Value| {
        entry["headers"] = json!({"X-Key": "${SECRET_VALUE}", "Authorization": "Bearer ${PERSONAL_VALUE}"});
        entry
    };
    let servers = json!({
        "closed": {"type": "http", "url": "http://127.0.0.1:9/s/${SECRET_VALUE}/mcp"},
        "shut": {"type": "http", "url": "http://127.0.0.1:9/s/canary0123456789abcdef/mcp"},
        "host": {"type": "http", "url": "https://${SECRET_VALUE}.invalid/mcp"},
        "odd": {"type": "http", "url": "${SECRET_VALUE}:x"},
        "tls": {"type": "http", "url": format!("https://127.0.0.1:{port}/${{SECRET_VALUE}}")},
        "whole": {"type": "http", "url": "${WHOLE}"},
        "echo": at("/echo/${SECRET_VALUE}/mcp"),
        "literal": at("/echo/canary0123456789abcdef/mcp"),
        "old": {"type": "sse", "url": format!("http://127.0.0.1:{port}/echo/${{SECRET_VALUE}}/sse")},
        "moved": at("/moved/${SECRET_VALUE}/mcp"),
        "login": at("/login/${SECRET_VALUE}/mcp"),
        "refused": with(at("/login/${SECRET_VALUE}/mcp")),
    });
    let names: Vec<String> = servers.as_object().unwrap().keys().cloned().collect();
    home.definition("all", &json!({"mcpServers": servers}).to_string());
    let daemon = DaemonProcess::start_with(&home, &["--listen", "off"], &[("LOG_LEVEL", "trace")]);
    let mut shim = home.shim();
    for name in &names {
        let params =
            format!(r#"{{"name":"{name}_suite","arguments":{{"action":"call","subtool":"x","args":{{}}}}}}"#);
        is_clean(name, &shim.request("tools/call", &params));
        server_is_clean(
            &home,
            &daemon,
            name,
            &[&["login", name][..], &["explain", name], &["logs", name], &["logout", name]],
        );
    }
    is_clean_as_a_whole(&home, &daemon);
    drop(daemon);
    kept(&home.state_folder());
}

/// A server that answers every request with `$1`, where `ID` stands for the request's id.
const ANSWERS: &str = r#"
while read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\("*[0-9]*"*\).*/\1/p')
  [ -n "$id" ] && printf '%s\n' "$1" | sed "s/ID/$id/; s/VALUE/$BY_SECRET/"
done"#;

/// Prints all values it was given to both streams: on short lines, and on one that is too long.
const PRINTS: &str = r#"
for value in "$LITERAL_TOKEN" "$BY_SECRET" "$BY_FILE" "$BY_SHELL" "$IN_FILE" "$PERSONAL_VALUE" "$3"; do
  echo "says $value to stderr" >&2
  echo "says $value to stdout"
done
printf '%4089s %s\n' x "$BY_SECRET" >&2
printf '%4089s %s\n' x "$BY_SECRET"
"#;

/// Local servers that print the values they were given: while they work, as their last output, at a failed
/// start, and in unusable answers.
#[test]
fn what_a_local_server_prints_is_shown_without_its_values() {
    let home = home_with_values();
    home.config(&json!({"timeouts": {"childSpawnMs": 4000}}));
    let env = json!({
        "LITERAL_TOKEN": "canary-literal",
        "BY_SECRET": "${SECRET_VALUE}",
        "BY_FILE": "${PERSONAL_VALUE}",
        "BY_SHELL": "x${env:SHELL_VALUE}y",
        "SWITCHBOARD_TEST": home.mark(),
    });
    let shell = |script: &str, answer: &str| {
        let args = ["-c", script, "sh", answer, "--key", "canary-argument"];
        json!({
            "command": "/bin/sh",
            "args": args,
            "env": env,
            "envFile": "variables",
            "passEnv": ["PERSONAL_VALUE"],
        })
    };
    let evil = bins().evil_child.display().to_string();
    let last_words = "echo \"last words $BY_SECRET $3\" >&2; printf 'half %.9s' \"$BY_SECRET\" >&2; exit 3";
    let servers = json!({
        "loud": shell(&format!("{PRINTS}\n'{evil}' echo\n{last_words}"), ""),
        "stillborn": shell(&format!("{PRINTS}\n{last_words}"), ""),
        "silent": shell(&format!("{PRINTS}\nexec sleep 60"), ""),
        "refuses": shell(ANSWERS, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no VALUE"}}"#),
        "babbles": shell(ANSWERS, r#"{"jsonrpc":"2.0","id":ID,"result":{"VALUE":nVALUE}}"#),
        "nowhere": {"command": "${SECRET_VALUE}", "env": env},
        "absent": {"command": "/nowhere/${SECRET_VALUE}", "env": env},
        "lost": {"command": evil, "cwd": "/nowhere/${SECRET_VALUE}", "env": env},
    });
    let names: Vec<String> = servers.as_object().unwrap().keys().cloned().collect();
    home.definition("all", &json!({"mcpServers": servers}).to_string());
    home.write(".config/switchboard/mcps/all/variables", "IN_FILE=canary-file\n");
    let daemon = DaemonProcess::start_with(&home, &["--listen", "off"], &[("LOG_LEVEL", "trace")]);
    let mut shim = home.shim();
    // The result of a tool is the server's own data and is not redacted.
    assert_eq!(structured(&shim.call("loud", "env", "{}"))["BY_SECRET"], "canary-secret");
    let mut errors = String::new();
    for name in &names {
        for action in [r#""action":"call","subtool":"crash","args":{}"#, r#""action":"introspect""#] {
            let answer =
                shim.request("tools/call", &format!(r#"{{"name":"{name}_suite","arguments":{{{action}}}}}"#));
            is_clean(name, &answer);
            errors.push_str(&answer);
        }
        server_is_clean(
            &home,
            &daemon,
            name,
            &[&["explain", name][..], &["logs", name], &["logs", name, "--json"]],
        );
    }
    is_clean_as_a_whole(&home, &daemon);
    // All of it was printed, and is shown with names in place of values.
    for part in
        ["last words ${SECRET_VALUE}", "half ${SECRET_VALUE}", "says ••• to stdout", "no ${SECRET_VALUE}"]
    {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let logs = String::from_utf8(home.command(&["logs", "stillborn"]).stdout).unwrap();
    for name in ["SECRET_VALUE", "PERSONAL_VALUE", "IN_FILE"] {
        for stream in ["stderr", "stdout"] {
            let line = format!("says ${{{name}}} to {stream}");
            assert!(logs.contains(&line), "{line}: {logs}");
        }
    }
    assert!(logs.contains("says x${SHELL_VALUE}y to stderr"), "{logs}");
    drop(daemon);
    kept(&home.state_folder());
}

/// Answers every request with its own head: as an error, as a redirect to another host, or as a login
/// challenge.
fn echoing_server() -> u16 {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = vec![0; 16 * 1024];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
            let more = if path.starts_with("/moved") {
                format!("302 Found\r\nLocation: http://{}.example/x", path.split('/').nth(2).unwrap())
            } else if path.starts_with("/login") {
                format!(
                    "401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata=\"http://127.0.0.1:{port}/meta{path}\""
                )
            } else {
                "404 Not Found".to_owned()
            };
            let body = format!("no route for {head}");
            let answer = format!(
                "HTTP/1.1 {more}\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn kept(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            kept(&path);
        } else if path.ends_with("trust/trust.json") || path.ends_with("secrets/secrets.json") {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        } else if path.is_file() {
            is_clean(&path.display().to_string(), &String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
    }
}
