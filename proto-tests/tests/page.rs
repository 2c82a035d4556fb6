//! The status page and its access: what is served without a token, what a code is good for, what its bearer
//! may read, and how pages are updated. The page in a browser is tested in `proto-tests/page`.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use proto_tests::http::Connection;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Endpoint, Home, Request, Response, TEST_TIMEOUT, bins};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PARTS: [&str; 15] = [
    "/",
    "/page/page.css",
    "/page/icon.svg",
    "/page/page.js",
    "/page/link.js",
    "/page/view.js",
    "/page/savings.js",
    "/page/calls.js",
    "/page/suites.js",
    "/page/details.js",
    "/page/errors.js",
    "/page/figures.js",
    "/page/charts.js",
    "/page/dom.js",
    "/page/words.js",
];

/// The code in the URL that `switchboard open` prints.
#[track_caller]
fn code(home: &Home, daemon: &DaemonProcess) -> String {
    let output = home.command(&["open", "--no-browser"]);
    assert!(output.status.success(), "{output:?}");
    let url = String::from_utf8(output.stdout).unwrap();
    let start = format!("http://{}/#code=", daemon.tcp_address());
    let code = url.trim_end().strip_prefix(&start).unwrap_or_else(|| panic!("{url} is not at {start}"));
    assert!(code.len() == 64 && code.bytes().all(|byte| byte.is_ascii_hexdigit()), "{code}");
    code.to_owned()
}

/// Exchanges a code as our own page does.
fn exchange(endpoint: &Endpoint, code: &str) -> Response {
    let origin = format!("http://{}", endpoint.host());
    endpoint.send(&Request::new("POST", "/page/session").header("Origin", &origin).body(entry(code)))
}

fn entry(code: &str) -> String {
    json!({ "code": code }).to_string()
}

#[track_caller]
fn bearer(home: &Home, daemon: &DaemonProcess) -> String {
    let answer = exchange(&daemon.tcp(), &code(home, daemon));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()["bearer"].as_str().unwrap().to_owned()
}

/// The event stream of one page.
struct Feed {
    connection: Connection,
    rest: String,
    opened: Instant,
    told: u128,
}

impl Feed {
    fn open(endpoint: &Endpoint, bearer: Option<&str>) -> Result<Self, Response> {
        let request = Request::new("GET", "/status/events");
        let request = bearer.map_or(request.clone(), |bearer| request.bearer(bearer));
        let opened = Instant::now();
        let mut connection = endpoint.connect().unwrap();
        connection.write(&request.bytes(&endpoint.host()));
        let mut head = connection.head().unwrap();
        if head.status != 200 {
            connection.rest(&mut head).unwrap();
            return Err(head);
        }
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Ok(Self { connection, rest: String::new(), opened, told: 0 })
    }

    /// The next event and its data; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (kind, words) = event.split_once('\n').unwrap();
                let words = words.strip_prefix("data: ").unwrap();
                let told =
                    (kind.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(words).unwrap());
                self.rest = rest.to_owned();
                self.told += 1;
                return Some(told);
            }
            let chunk = self.connection.chunk().unwrap();
            if chunk.is_empty() {
                return None;
            }
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads events until a status matches.
    #[track_caller]
    fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            let (kind, status) = self.next().expect("the feed goes on");
            assert_eq!(kind, "status");
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "never told: {status}");
        }
    }
}

#[test]
fn the_page_is_served_without_a_token_and_loads_nothing_external() {
    let home = Home::new();
    home.config(&json!({"http": {"listen": "off", "openDiscovery": false}}));
    let daemon = home.daemon_on_tcp();
    for endpoint in [daemon.tcp(), daemon.endpoint()] {
        for part in PARTS {
            let got = endpoint.get(part);
            assert_eq!(got.status, 200, "{part}: {}", got.text());
            let policy = got.header("content-security-policy").unwrap();
            for rule in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            ] {
                assert!(policy.contains(rule), "{part}: {rule} is not in {policy}");
            }
            assert!(
                !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
                "{policy}"
            );
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
                ("cache-control", "no-cache"),
            ] {
                assert_eq!(got.header(name), Some(value), "{part}: {name}");
            }
            // The only URL in it is the SVG namespace.
            let addresses = got.text().replace("http://www.w3.org/2000/svg", "");
            assert!(!addresses.contains("://") && !addresses.contains("url("), "{part}");

            let head = endpoint.send(&Request::new("HEAD", part));
            assert_eq!(
                (head.status, head.header("content-type")),
                (200, got.header("content-type")),
                "{part}"
            );
            assert_eq!(head.header("content-length"), Some(got.body.len().to_string().as_str()), "{part}");
            let tag = got.header("etag").unwrap();
            for known in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
                let again = endpoint.send(&Request::new("GET", part).header("If-None-Match", &known));
                assert_eq!((again.status, again.body.len()), (304, 0), "{part}: {known}");
                assert_eq!(again.header("etag"), Some(tag));
            }
            let other = endpoint.send(&Request::new("GET", part).header("If-None-Match", "\"x\""));
            assert_eq!(other.status, 200, "{part}");
        }
        let shell = endpoint.get("/").text();
        let lower = shell.to_ascii_lowercase();
        assert!(lower.contains("<noscript>") && lower.contains("switchboard status"));
        for inline in ["<style", " style=", " onload", " onclick", "javascript:"] {
            assert!(!lower.contains(inline), "{inline}");
        }
        assert_eq!(
            lower.matches("<script").count(),
            lower.matches("<script type=\"module\" src=\"/page/").count()
        );
        assert!(!shell.contains(&daemon.token()) && !shell.contains(home.mark()));
    }
    assert_eq!(daemon.endpoint().get("/page/other.js").status, 404);
    assert_eq!(daemon.tcp().get("/page/other.js").status, 401);
    assert_eq!(daemon.tcp().get("/status").status, 401);
    let wrong = daemon.endpoint().post("/", "{}");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));
    let wrong = daemon.endpoint().get("/page/session");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
}

#[test]
fn a_code_works_once_and_only_from_our_own_page() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let endpoint = daemon.tcp();
    let (code, port) = (code(&home, &daemon), daemon.tcp_address().port());
    let own = format!("http://{}", endpoint.host());
    // None of these uses up the code.
    for origins in [
        vec![],
        vec!["https://evil.example".to_owned()],
        vec!["null".to_owned()],
        vec![format!("http://localhost:{port}")],
        vec![format!("https://127.0.0.1:{port}")],
        vec![format!("{own}/")],
        vec![own.clone(), "https://evil.example".to_owned()],
        vec![own.clone(), own.clone()],
    ] {
        for token in [None, Some(daemon.token())] {
            let mut request = Request::new("POST", "/page/session").body(entry(&code));
            for origin in &origins {
                request = request.header("Origin", origin);
            }
            request = token.map_or(request.clone(), |token| request.bearer(&token));
            let answer = endpoint.send(&request);
            assert_eq!(answer.status, 403, "{origins:?}: {}", answer.text());
            assert_eq!(answer.header("access-control-allow-origin"), None, "{origins:?}");
        }
    }
    let wrong: Vec<_> =
        ["", "x", &code[1..], &format!("{code}0"), &code.to_uppercase(), &"0".repeat(64), &daemon.token()]
            .iter()
            .filter(|wrong| ***wrong != *code)
            .map(|wrong| exchange(&endpoint, wrong))
            .collect();
    assert!(wrong.len() >= 6);
    let good = exchange(&endpoint, &code);
    assert_eq!(good.status, 200, "{}", good.text());
    assert_eq!(good.header("access-control-allow-origin"), None);
    let bearer = good.json()["bearer"].as_str().unwrap().to_owned();
    assert!(bearer.len() == 64 && bearer != code && bearer != daemon.token());
    let replayed = exchange(&endpoint, &code);
    // Used codes and wrong codes get the same answer.
    for answer in &wrong {
        assert_eq!((answer.status, answer.text()), (401, replayed.text()));
    }
    assert_eq!(replayed.status, 401);
    assert_eq!(exchange(&endpoint, &bearer).status, 401);
    for body in ["", "{}", "[]", r#"{"code":1}"#, &format!(r#"{{"code":"{}"}}"#, "0".repeat(2000))] {
        let request = Request::new("POST", "/page/session").header("Origin", &own).body(body);
        assert_eq!(endpoint.send(&request).status, 400, "{body}");
    }
}

#[test]
fn the_page_works_under_every_local_host_name() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let port = daemon.tcp_address().port();
    for name in ["127.0.0.1", "localhost", "[::1]"] {
        let host = format!("{name}:{port}");
        let request = Request::new("POST", "/page/session")
            .header("Host", &host)
            .header("Origin", &format!("http://{host}"))
            .body(entry(&code(&home, &daemon)));
        assert_eq!(daemon.tcp().send(&request).status, 200, "{host}");
    }
    let socket = exchange(&daemon.endpoint(), &code(&home, &daemon));
    assert_eq!(socket.status, 200);
}

#[test]
fn an_origin_that_the_config_allows_is_not_our_page() {
    let home = Home::new();
    let page = "https://page.example";
    home.config(&json!({"http": {"listen": "off", "allowedOrigins": [page]}}));
    let daemon = home.daemon_on_tcp();
    let request =
        Request::new("POST", "/page/session").header("Origin", page).body(entry(&code(&home, &daemon)));
    assert_eq!(daemon.tcp().send(&request).status, 403);
}

#[test]
fn our_page_can_read_the_status_and_use_nothing_else() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let (endpoint, own) = (daemon.tcp(), format!("http://{}", daemon.tcp_address()));
    let with = |method: &str, target: &str| {
        endpoint
            .send(&Request::new(method, target).header("Origin", &own).bearer(&daemon.token()).body(PING))
            .status
    };
    for target in ["/", "/status", "/suites", "/suites/kid_suite"] {
        assert_eq!(with("GET", target), 200, "{target}");
    }
    for (method, target) in [
        ("POST", "/proxy"),
        ("POST", "/proxy/kid"),
        ("GET", "/proxy"),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("OPTIONS", "/proxy"),
        ("POST", "/control/stop"),
        ("POST", "/hop/session"),
        ("POST", "/status"),
    ] {
        assert_eq!(with(method, target), 403, "{method} {target}");
    }
}

#[test]
fn a_bearer_reads_what_the_page_shows_and_nothing_else() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    home.shim().call("kid", "echo", "{}");
    let (endpoint, bearer) = (daemon.tcp(), bearer(&home, &daemon));
    let ask = |method: &str, target: &str| {
        endpoint.send(&Request::new(method, target).bearer(&bearer).body(if method == "POST" {
            PING
        } else {
            ""
        }))
    };
    let status = ask("GET", "/status").json();
    assert_eq!(status["pid"], daemon.pid());
    assert!(ask("GET", "/suites/kid_suite").json()["file"].is_string());
    assert_eq!(ask("GET", "/suites/kid_suite/tools").json()["known"], true);
    assert_eq!(ask("HEAD", "/status").status, 200);
    assert!(ask("GET", "/savings").json()["perSession"]["listed"].is_number());
    // Naming a workspace without sessions must not load it.
    let before = status["workspaces"].as_array().unwrap().len();
    let elsewhere = home.path().join("elsewhere/mcps");
    fs::create_dir_all(&elsewhere).unwrap();
    let target = format!("/suites?workspace={}", elsewhere.parent().unwrap().display());
    assert_eq!(ask("GET", &target).status, 200);
    assert_eq!(ask("GET", "/status").json()["workspaces"].as_array().unwrap().len(), before);
    // Names and states, as without a token.
    assert_eq!(ask("GET", "/proxy").json()["suites"][0].get("file"), None);

    let controls = ["reload", "restart", "logs", "stop", "open", "login", "login-done", "logout"];
    let controls: Vec<_> = controls.iter().map(|order| format!("/control/{order}")).collect();
    let all = [
        "/proxy",
        "/proxy/kid",
        "/mcp",
        "/mcp/kid",
        "/hop/session",
        "/hop/mailbox",
        "/status",
        "/suites",
        "/savings",
    ];
    let more =
        ["/status/events", "/suites/kid_suite", "/suites/kid_suite/tools", "/", "/page/page.js", "/metrics"];
    for target in all.iter().chain(&more).copied().chain(controls.iter().map(String::as_str)) {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let refused = ask(method, target);
            assert!([401, 403].contains(&refused.status), "{method} {target}: {}", refused.status);
            assert!(!refused.text().contains("result"), "{method} {target}");
        }
    }
    for target in ["/mcp", "/mcp/kid", "/metrics", "/hop/session", "/control/stop", "/nowhere", "/page/other"]
    {
        let refused = ask("GET", target).status;
        assert!([401, 403].contains(&refused), "GET {target}: {refused}");
    }
    let health = ask("GET", "/health");
    assert_eq!(health.status, 200);
    for wrong in [bearer[1..].to_owned(), format!("{bearer}0"), bearer.to_uppercase(), "0".repeat(64)] {
        if wrong != bearer {
            let seen = endpoint.send(&Request::new("GET", "/status").bearer(&wrong)).json();
            assert_eq!(seen.get("pid"), None, "{wrong}");
        }
    }
}

#[test]
fn a_bearer_outlives_the_daemon_but_not_a_stop() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon_on_tcp();
    let bearer = bearer(&home, &daemon);
    let file = home.state_folder().join("page-bearers.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(
        !fs::read_to_string(&file).unwrap().contains(&bearer),
        "the file can be used by whoever reads it"
    );
    let sees_all = |daemon: &DaemonProcess| {
        let seen = daemon.tcp().send(&Request::new("GET", "/status").bearer(&bearer)).json();
        assert_eq!(seen["suites"][0]["name"], "kid_suite", "{seen}");
        seen["pid"] == daemon.pid()
    };
    for signal in [Signal::TERM, Signal::KILL] {
        daemon.signal(signal);
        daemon.ended(TEST_TIMEOUT);
        drop(daemon);
        daemon = home.daemon_on_tcp();
        assert!(sees_all(&daemon), "{signal:?}");
        assert!(Feed::open(&daemon.tcp(), Some(&bearer)).is_ok(), "{signal:?}");
    }
    // It still cannot act.
    let post = Request::new("POST", "/proxy").bearer(&bearer).body(PING);
    assert_eq!(daemon.tcp().send(&post).status, 401);
    home.run_ok(&["stop"]);
    daemon.ended(TEST_TIMEOUT);
    drop(daemon);
    let daemon = home.daemon_on_tcp();
    assert!(!sees_all(&daemon));
    assert_eq!(Feed::open(&daemon.tcp(), Some(&bearer)).err().map(|refused| refused.status), Some(401));
}

/// A listener on the port of a daemon that has ended cannot pretend to be it, and cannot fetch a proof elsewhere.
#[test]
fn a_daemon_shows_that_it_knows_a_bearer() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let bearer = bearer(&home, &daemon);
    let port = daemon.tcp_address().port();
    let nonce = "0123456789abcdef".repeat(4);
    let sha256 =
        |text: &[u8]| -> String { Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect() };
    let ask = |host: &str, nonce: &str| {
        daemon.tcp().send(&Request::new("GET", &format!("/page/proof?nonce={nonce}")).header("Host", host))
    };
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        let wanted = sha256(format!("{}\n{host}\n{nonce}", sha256(bearer.as_bytes())).as_bytes());
        assert_eq!(ask(&host, &nonce).json(), json!({ "proofs": [wanted] }), "{host}");
    }
    assert_eq!(ask(&format!("127.0.0.1:{}", port ^ 1), &nonce).status, 403);
    for wrong in ["", "00", &nonce[1..], &"g".repeat(64), &"0".repeat(1000)] {
        assert_eq!(ask(&format!("127.0.0.1:{port}"), wrong).status, 400, "{wrong}");
    }
}

#[test]
fn the_details_of_a_server_are_for_the_page_only() {
    let home = Home::new();
    let key = "sk-abcdefghijklmnop1234567890";
    home.child("kid", &["echo"]);
    home.definition(
        "keyed",
        &json!({"mcpServers": {"keyed": {"command": "/nowhere", "args": ["--api-key", key]}}}).to_string(),
    );
    home.config(
        &json!({"suites": {"kid": {"expose": {"deny": ["die"]}}}, "introspection": {"mode": "redacted"}}),
    );
    let project = home.project("shop");
    project.child("theirs", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let mut shim = project.shim();
    shim.call("kid", "echo", "{}");
    let (endpoint, bearer) = (daemon.tcp(), bearer(&home, &daemon));
    let read = |target: &str| endpoint.send(&Request::new("GET", target).bearer(&bearer));
    assert_eq!(endpoint.get("/suites/kid_suite/details").status, 401);
    let told = read("/suites/kid_suite/details").json();
    let names: Vec<&str> =
        told["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo") && !names.contains(&"die"), "{told}");
    assert!(!told.to_string().contains("inputSchema"), "{told}");
    assert!(told["stderr"].is_array() && told["directory"].is_string(), "{told}");
    assert_eq!(read("/suites/keyed_suite/details").json()["command"], "/nowhere --api-key '•••'");
    // Of a held server, nothing of its own words; and a page loads no workspace.
    let query = |folder: &std::path::Path| format!("?workspace={}", folder.display());
    let told = read(&format!("/suites/theirs_suite/details{}", query(project.path()))).json();
    assert_eq!((&told["held"], told.get("tools"), told.get("stderr")), (&json!(true), None, None), "{told}");
    assert!(told["command"].is_string(), "{told}");
    assert_eq!(read("/suites/theirs_suite/details").status, 404);
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let unknown = read(&format!("/suites/kid_suite/details{}", query(&elsewhere)));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    assert_eq!(read("/suites/none_suite/details").status, 404);
}

#[test]
fn a_page_is_updated_when_something_happens() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let mut feed = Feed::open(&daemon.tcp(), Some(&bearer(&home, &daemon))).ok().unwrap();
    let mut on_socket = Feed::open(&daemon.endpoint(), None).ok().unwrap();
    let first = feed.until(|_| true);
    assert_eq!(first["pid"], daemon.pid());
    assert_eq!(first["suites"][0]["state"], "cold");

    let mut shim = home.shim();
    feed.until(|status| status["sessions"][0]["client"] == "proto-tests");
    shim.call("kid", "echo", "{}");
    for feed in [&mut feed, &mut on_socket] {
        feed.until(|status| status["suites"][0]["state"] == "ready");
    }
    home.child("second", &["echo"]);
    feed.until(|status| status["suites"].as_array().unwrap().len() == 2);
    // However much happens, at most two updates a second are sent.
    for _ in 0..300 {
        shim.call("kid", "echo", "{}");
    }
    drop(shim);
    feed.until(|status| status["sessions"].as_array().unwrap().is_empty());
    let most = feed.opened.elapsed().as_millis() / 500 + 1;
    assert!(feed.told <= most, "{} times in {:?}", feed.told, feed.opened.elapsed());
}

#[test]
fn the_number_of_page_feeds_is_limited() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let (endpoint, bearer) = (daemon.tcp(), bearer(&home, &daemon));
    for (bearer, status) in [(None, 401), (Some("0".repeat(64)), 401)] {
        let refused = Feed::open(&endpoint, bearer.as_deref()).err().unwrap();
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    let mut feeds: Vec<_> = (0..8).map(|_| Feed::open(&endpoint, Some(&bearer)).ok().unwrap()).collect();
    assert!(feeds.iter_mut().all(|feed| feed.next().is_some()));
    let refused = Feed::open(&endpoint, Some(&bearer)).err().unwrap();
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("close one"), "{}", refused.text());
    feeds.pop();
    until_true("a free place", TEST_TIMEOUT, || Feed::open(&endpoint, Some(&bearer)).is_ok());
    // Other routes still work.
    assert_eq!(endpoint.get("/health").status, 200);
}

#[test]
fn a_page_is_told_of_the_daemons_exit_and_does_not_delay_it() {
    for (args, signal) in
        [(&["--listen", "127.0.0.1:0"][..], true), (&["--listen", "127.0.0.1:0", "--idle-exit", "1"], false)]
    {
        let home = Home::new();
        let mut daemon = DaemonProcess::start(&home, args);
        let mut feed = Feed::open(&daemon.tcp(), Some(&bearer(&home, &daemon))).ok().unwrap();
        feed.until(|_| true);
        if signal {
            daemon.signal(Signal::TERM);
        }
        let mut last = String::new();
        while let Some((kind, _)) = feed.next() {
            last = kind;
        }
        assert_eq!(last, "gone", "{args:?}");
        assert!(daemon.ended(TEST_TIMEOUT).success(), "{args:?}");
    }
}

#[test]
fn open_explains_why_there_is_no_page() {
    let home = Home::new();
    let output = home.command(&["open"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("switchboard start"), "{output:?}");
    let check = |words: &[&str]| {
        let output = home.command(&["open", "--no-browser"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for word in words.iter().chain(&["http.listen", "switchboard.config.json", "switchboard restart"]) {
            assert!(said.contains(word), "{word} is not in {said}");
        }
        assert!(output.stdout.is_empty());
    };
    let daemon = home.daemon();
    check(&["off"]);
    drop(daemon);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let _daemon = DaemonProcess::start(&home, &["--listen", &address]);
    check(&[&address]);
}

#[test]
fn open_shows_the_page_in_a_browser() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let programs = home.path().join("programs");
    let opened = home.path().join("opened");
    let open = |args: &[&str]| -> Output {
        Command::new(&bins().switchboard)
            .arg("open")
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("PATH", &programs)
            .env("SWITCHBOARD_SOCKET", home.socket())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let start = format!("http://{}/#code=", daemon.tcp_address());
    // Without a browser, it prints the URL.
    let output = open(&[]);
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&start),
        "{output:?}"
    );
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let script = home.write(
        &format!("programs/{opener}"),
        &format!("#!/bin/sh\necho \"$#:$1\" > {0}.new; /bin/mv {0}.new {0}\n", opened.display()),
    );
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let output = open(&["--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["opened"], &told["expiresMs"]), (&json!(true), &json!(30_000)), "{told}");
    until_true("the browser", TEST_TIMEOUT, || opened.exists());
    // Every user can see command lines, so the browser is given a private file that redirects to the page.
    let file = home.state_folder().join("open.html");
    assert_eq!(fs::read_to_string(&opened).unwrap().trim_end(), format!("1:file://{}", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(home.state_folder()).unwrap().permissions().mode() & 0o077, 0);
    let lead = fs::read_to_string(&file).unwrap();
    assert!(lead.contains(&format!("content=\"0; url={}\"", told["url"].as_str().unwrap())), "{lead}");
    assert!(!lead.contains("<script"), "{lead}");
    let code = told["url"].as_str().unwrap().strip_prefix(&start).unwrap();
    assert_eq!(exchange(&daemon.tcp(), code).status, 200);
    fs::remove_file(&opened).unwrap();
    let told: Value = serde_json::from_slice(&open(&["--json", "--no-browser"]).stdout).unwrap();
    assert_eq!(told["opened"], false);
    assert!(!opened.exists());
    // The next daemon deletes the file.
    drop(daemon);
    let _daemon = home.daemon_on_tcp();
    assert!(!file.exists());
}
