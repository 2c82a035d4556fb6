//! Who gets access: hostile Host, Origin and Authorization headers over TCP, other users on the socket.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use proto_tests::proof::counted;
use proto_tests::{DaemonProcess, Endpoint, Home, Request, bins};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// `PORT` and `TOKEN` in a request are replaced by the real values.
struct Gate {
    _daemon: DaemonProcess,
    endpoint: Endpoint,
    port: String,
    token: String,
}

impl Gate {
    fn new(home: &Home) -> Self {
        let daemon = home.daemon_on_tcp();
        let (endpoint, port) = (daemon.tcp(), daemon.tcp_address().port().to_string());
        Self { token: daemon.token(), _daemon: daemon, endpoint, port }
    }

    fn fill(&self, text: &str) -> String {
        text.replace("PORT", &self.port).replace("TOKEN", &self.token)
    }

    /// The status of a raw request; 0 if the connection was closed without an answer.
    fn status(&self, raw: &str) -> u16 {
        let mut connection = self.endpoint.connect().unwrap();
        connection.write(self.fill(raw).as_bytes());
        match connection.response(false) {
            Ok(response) => {
                assert_eq!(response.header("access-control-allow-origin"), None, "{raw}");
                if response.status >= 400 {
                    assert!(!response.text().contains("\"result\""), "{raw}: {}", response.text());
                }
                response.status
            }
            Err(_) => 0,
        }
    }

    /// A ping with these headers.
    fn ping(&self, headers: &str) -> u16 {
        self.status(&format!("POST /proxy HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{PING}", PING.len()))
    }
}

const HOST: &str = "Host: 127.0.0.1:PORT\r\n";
const AUTH: &str = "Authorization: Bearer TOKEN\r\n";

#[test]
fn local_hosts_with_the_token_are_accepted() {
    let home = Home::new();
    let gate = Gate::new(&home);
    for host in ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"] {
        assert_eq!(gate.ping(&format!("Host: {host}\r\n{AUTH}")), 200, "{host}");
    }
}

#[test]
fn foreign_hosts_are_refused_even_with_the_token() {
    let home = Home::new();
    let gate = Gate::new(&home);
    for host in [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:PORT0",
        "127.0.0.1:0PORT",
        "127.0.0.1:+PORT",
        "127.0.0.1:",
        "127.0.0.1:PORT.evil.example",
        "127.0.0.1.evil.example:PORT",
        "127.0.0.1.:PORT",
        "127.0.0.1:PORT@evil.example",
        "user@127.0.0.1:PORT",
        "127.0.0.1:PORT,evil.example",
        "127.0.0.1:PORT/",
        "127.0.0.2:PORT",
        "127.1:PORT",
        "0.0.0.0:PORT",
        "2130706433:PORT",
        "0x7f000001:PORT",
        "0177.0.0.1:PORT",
        "localhost",
        "localhost:1",
        "localhost.:PORT",
        "localhost.evil.example:PORT",
        "evil-localhost:PORT",
        "localhost.localdomain:PORT",
        "[::1]",
        "[::1]:1",
        "::1:PORT",
        "[::]:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "[0:0:0:0:0:0:0:1]:PORT",
        "http://127.0.0.1:PORT",
        "",
        "*",
    ] {
        let status = gate.ping(&format!("Host: {host}\r\n{AUTH}"));
        assert!([400, 403].contains(&status), "{host:?} got {status}");
        // Routes that need no token check the host too.
        let status = gate.status(&format!("GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!([400, 403].contains(&status), "{host:?} got {status} from /health");
    }
}

#[test]
fn a_missing_or_repeated_host_header_is_refused() {
    let home = Home::new();
    let gate = Gate::new(&home);
    for headers in [
        AUTH.to_owned(),
        format!("{HOST}Host: evil.example\r\n{AUTH}"),
        format!("Host: evil.example\r\n{HOST}{AUTH}"),
        format!("{HOST}{HOST}{AUTH}"),
        format!("X-Forwarded-Host: 127.0.0.1:PORT\r\n{AUTH}"),
        format!("Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1:PORT\r\n{AUTH}"),
    ] {
        let status = gate.ping(&headers);
        assert!([400, 403].contains(&status), "{headers:?} got {status}");
    }
    for line in [
        "POST http://evil.example/proxy HTTP/1.1",
        "POST http://evil.example:PORT/proxy HTTP/1.1",
        "POST https://127.0.0.1.evil.example:PORT/proxy HTTP/1.1",
    ] {
        let raw = format!("{line}\r\n{HOST}{AUTH}Content-Length: {}\r\n\r\n{PING}", PING.len());
        let status = gate.status(&raw);
        assert!([400, 403].contains(&status), "{line} got {status}");
    }
    let raw = format!("POST /proxy HTTP/1.0\r\n{AUTH}Content-Length: {}\r\n\r\n{PING}", PING.len());
    let status = gate.status(&raw);
    assert!([400, 403].contains(&status), "HTTP/1.0 without a host got {status}");
    for line in ["CONNECT evil.example:443 HTTP/1.1", "CONNECT 127.0.0.1:PORT HTTP/1.1"] {
        let status = gate.status(&format!("{line}\r\n{HOST}{AUTH}\r\n"));
        assert!([400, 403, 404, 405].contains(&status), "{line} got {status}");
    }
}

#[test]
fn foreign_origins_are_refused_even_with_the_token() {
    let home = Home::new();
    let gate = Gate::new(&home);
    for origin in [
        "https://evil.example",
        "http://evil.example:PORT",
        "null",
        "",
        "*",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "https://127.0.0.1:PORT",
        "http://127.0.0.1:PORT.evil.example",
        "http://127.0.0.1:PORT@evil.example",
        "http://127.0.0.1:PORT/",
        "http://127.0.0.1:PORT http://evil.example",
        "127.0.0.1:PORT",
        "http://localhost",
        "http://localhost.evil.example:PORT",
        "http://0.0.0.0:PORT",
        "http://127.0.0.2:PORT",
        "file://",
        "data:",
        "chrome-extension://abcdefghijklmnop",
        "moz-extension://abcdefghijklmnop",
        "vscode-webview://abcdefghijklmnop",
        "tauri://localhost",
        "app://localhost",
    ] {
        let status = gate.ping(&format!("{HOST}Origin: {origin}\r\n{AUTH}"));
        assert_eq!(status, 403, "{origin:?}");
        let status = gate.status(&format!("GET /health HTTP/1.1\r\n{HOST}Origin: {origin}\r\n\r\n"));
        assert_eq!(status, 403, "{origin:?} on /health");
    }
    let twice = format!("{HOST}Origin: http://127.0.0.1:PORT\r\nOrigin: https://evil.example\r\n{AUTH}");
    assert_eq!(gate.ping(&twice), 403);
    let preflight = format!(
        "OPTIONS /proxy HTTP/1.1\r\n{HOST}Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    );
    assert_eq!(gate.status(&preflight), 403);
}

/// Hosts, origins, content types and routes in every combination, each with the token.
#[test]
fn all_variants_of_foreign_hosts_and_origins_are_refused() {
    const HOSTS: [&str; 10] = [
        "127.0.0.1:PORT",
        "localhost:PORT",
        "LOCALHOST.:PORT",
        "evil.example:PORT",
        "127.0.0.1.evil.example:PORT",
        "127.0.0.1:1",
        "[::ffff:127.0.0.1]:PORT",
        "0:PORT",
        "127.0.0.1",
        "[::1%25lo]:PORT",
    ];
    const ORIGINS: [&str; 9] = [
        "",
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Origin: https://127.0.0.1:PORT\r\n",
        "Origin: http://127.0.0.1.:PORT\r\n",
        "Origin: HTTP://EVIL.example:PORT\r\n",
        "Origin: file://\r\n",
        "Origin: https://evil.example\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: cross-site\r\n",
    ];
    const TYPES: [&str; 4] = [
        "Content-Type: application/json\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "",
    ];
    const LINES: [&str; 4] =
        ["POST /proxy", "POST /mcp", "POST http://127.0.0.1:PORT/proxy/kid", "POST /control/reload"];
    let home = Home::new();
    home.child("kid", &["echo"]);
    let gate = Gate::new(&home);
    let mut refused = 0;
    for (at, host) in HOSTS.into_iter().enumerate() {
        for origin in ORIGINS {
            // The first two hosts are ours.
            if at < 2 && origin.is_empty() {
                continue;
            }
            for content_type in TYPES {
                for line in LINES {
                    // The target of the third line names the right host, and the header the wrong one.
                    let headers = format!("Host: {host}\r\n{origin}{content_type}{AUTH}");
                    let raw =
                        format!("{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{PING}", PING.len());
                    let status = gate.status(&raw);
                    assert!([400, 403].contains(&status), "{raw:?} got {status}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused >= 675, "{refused} variants");
    counted("S1", "variants refused", refused);
}

#[test]
fn requests_without_the_right_token_are_refused() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let gate = Gate::new(&home);
    let half = &gate.token[..gate.token.len() / 2];
    let flipped: String =
        gate.token.chars().map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c }).collect();
    for authorization in [
        String::new(),
        "Authorization:\r\n".into(),
        "Authorization: Bearer\r\n".into(),
        "Authorization: Bearer \r\n".into(),
        "Authorization: Bearer x\r\n".into(),
        "Authorization: TOKEN\r\n".into(),
        "Authorization: Basic TOKEN\r\n".into(),
        "Authorization: Token TOKEN\r\n".into(),
        "Authorization: BearerTOKEN\r\n".into(),
        "Authorization: Bearer TOKENx\r\n".into(),
        "Authorization: Bearer xTOKEN\r\n".into(),
        "Authorization: Bearer TOKEN TOKEN\r\n".into(),
        "Authorization: Bearer TOKEN,x\r\n".into(),
        "Authorization: Bearer \"TOKEN\"\r\n".into(),
        format!("Authorization: Bearer {half}\r\n"),
        format!("Authorization: Bearer {}\r\n", "0".repeat(gate.token.len())),
        "X-Authorization: Bearer TOKEN\r\n".into(),
        "Proxy-Authorization: Bearer TOKEN\r\n".into(),
        "Cookie: token=TOKEN; Authorization=Bearer TOKEN\r\n".into(),
        format!("Authorization: Bearer {flipped}!\r\n"),
        format!("Authorization: Bearer {}\r\n", "a".repeat(10_000)),
    ] {
        let status = gate.ping(&format!("{HOST}{authorization}"));
        assert_eq!(status, 401, "{authorization:?}");
    }
    for target in ["/proxy?token=TOKEN", "/proxy?access_token=TOKEN", "/proxy#TOKEN", "/TOKEN/proxy"] {
        let raw = format!("POST {target} HTTP/1.1\r\n{HOST}Content-Length: {}\r\n\r\n{PING}", PING.len());
        let status = gate.status(&raw);
        assert!([400, 401, 404].contains(&status), "{target} got {status}");
    }
    for target in ["/proxy", "/proxy/kid", "/proxy/nobody", "/mcp", "/mcp/kid"] {
        let raw = format!("POST {target} HTTP/1.1\r\n{HOST}Content-Length: {}\r\n\r\n{PING}", PING.len());
        assert_eq!(gate.status(&raw), 401, "{target}");
    }
}

#[test]
fn open_routes_reveal_no_paths_programs_or_tokens() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let gate = Gate::new(&home);
    for target in ["/health", "/ready", "/version", "/suites", "/suites/kid_suite", "/status", "/proxy"] {
        let response = gate.endpoint.get(target);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        for secret in [home.mark(), "evil-child", gate.token.as_str()] {
            assert!(!response.text().contains(secret), "{target} tells {secret}: {}", response.text());
        }
    }
    assert!(gate.endpoint.get("/suites").text().contains("kid_suite"));
}

#[test]
fn hop_and_control_routes_are_refused_over_tcp() {
    let home = Home::new();
    let gate = Gate::new(&home);
    for target in [
        "/hop/session",
        "/hop/mailbox",
        "/control/reload",
        "/control/stop",
        "/control/restart",
        "/control/logs",
    ] {
        let raw = format!("POST {target} HTTP/1.1\r\n{HOST}{AUTH}Content-Length: 2\r\n\r\n{{}}");
        let status = gate.status(&raw);
        assert!([403, 404].contains(&status), "{target} got {status}");
    }
}

#[test]
fn headers_have_a_limit_in_size_and_time() {
    let home = Home::new();
    let gate = Gate::new(&home);
    let status = gate.ping(&format!("{HOST}{AUTH}X-Long: {}\r\n", "x".repeat(20 << 10)));
    assert!([0, 400, 431].contains(&status), "{status}");
    let mut connection = gate.endpoint.connect().unwrap();
    connection.write(b"POST /proxy HTTP/1.1\r\nHost: ");
    // The daemon closes the connection after 5 s; the test waits longer than that.
    match connection.response(false) {
        Ok(response) => assert_eq!(response.status, 408),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}"),
    }
    assert_eq!(gate.ping(&format!("{HOST}{AUTH}")), 200);
}

#[test]
fn the_socket_checks_host_and_origin_too() {
    let home = Home::new();
    let daemon = home.daemon();
    let ping = |host: &str, origin: Option<&str>| {
        let request = Request::new("POST", "/proxy").header("Host", host).body(PING);
        let request = origin.map_or(request.clone(), |origin| request.header("Origin", origin));
        daemon.endpoint().send(&request).status
    };
    assert_eq!(ping("localhost", None), 200);
    for host in ["evil.example", "localhost.evil.example", "localhost:7420@evil", "127.0.0.1.evil.example"] {
        let status = ping(host, None);
        assert!([400, 403].contains(&status), "{host} got {status}");
    }
    for origin in ["https://evil.example", "null", "http://localhost:7420"] {
        assert_eq!(ping("localhost", Some(origin)), 403, "{origin}");
    }
}

#[test]
fn socket_token_and_state_are_readable_by_their_owner_only() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.socket()), 0o600);
    assert_eq!(mode(home.socket().parent().unwrap()), 0o700);
    let told = daemon.daemon_file();
    assert_eq!(mode(told["tokenFile"].as_str().unwrap().as_ref()), 0o600);
    assert_eq!(mode(&home.state_folder()), 0o700);
    assert_eq!(mode(format!("{}.json", home.socket().display()).as_ref()), 0o600);
    assert_eq!(told["pid"], daemon.pid());
    assert!(daemon.token().len() >= 32);
}

#[test]
fn a_socket_in_an_open_folder_is_refused() {
    let home = Home::new();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = open.join("s");
    let output = Command::new(&bins().switchboardd)
        .args(["--listen", "off", "--socket"])
        .arg(&socket)
        .env_clear()
        .envs(home.environment())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("chmod 700"), "{said}");
    assert!(!socket.exists());
}

#[test]
fn another_user_gets_nothing_from_the_socket() {
    if !rustix::process::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming another user needs root and setpriv");
        return;
    }
    let home = Home::new();
    let _daemon = home.daemon();
    // Even if somebody changes the modes of folder and socket, the daemon checks the peer's uid.
    let folder = home.socket().parent().unwrap().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o777)).unwrap();
    let knock = folder.join("knock");
    fs::copy(&bins().knock, &knock).unwrap();
    fs::set_permissions(&knock, fs::Permissions::from_mode(0o755)).unwrap();
    let request = Request::new("POST", "/proxy").header("Connection", "close").body(PING).bytes("localhost");
    let knock_as = |prefix: &[&str]| {
        let mut words =
            prefix.iter().map(std::ffi::OsString::from).chain([knock.clone().into(), home.socket().into()]);
        let mut process = Command::new(words.next().unwrap())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(&request).unwrap();
        let output = process.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let own = knock_as(&[]);
    assert!(own.starts_with("HTTP/1.1 200"), "{own}");
    let stranger = knock_as(&["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    assert!(stranger.is_empty() || stranger.starts_with("HTTP/1.1 403"), "{stranger}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn an_allowed_origin_can_read_why_it_was_refused() {
    let home = Home::new();
    let page = "https://page.example";
    home.config(&serde_json::json!({"http": {"listen": "off", "allowedOrigins": [page]}}));
    let daemon = home.daemon_on_tcp();
    let ask = |origin: &str, token: &str| {
        let request = Request::new("POST", "/proxy").header("Origin", origin).bearer(token).body(PING);
        daemon.tcp().send(&request)
    };
    let token = daemon.token();
    for (token, status) in [(token.as_str(), 200), ("wrong", 401)] {
        let response = ask(page, token);
        assert_eq!(response.status, status, "{}", response.text());
        assert_eq!(response.header("access-control-allow-origin"), Some(page), "{status}");
        assert_eq!(response.header("vary"), Some("origin"), "{status}");
    }
    let refused = ask("https://evil.example", &token);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None));
}

#[test]
fn unwritable_files_disable_tcp_but_not_the_daemon() {
    let home = Home::new();
    // Neither file can be written, as on a full disk.
    fs::create_dir_all(home.state_folder().join("token/in-the-way")).unwrap();
    fs::set_permissions(home.state_folder(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir_all(format!("{}.json/in-the-way", home.socket().display())).unwrap();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    assert!(home.shim().call("kid", "echo", "{}").contains("\"ok\":true"));
    let log = daemon.log();
    assert!(log.contains("no TCP") && log.contains("token"), "{log}");
    assert!(log.contains(".json` cannot be written"), "{log}");
    let litter: Vec<_> = [home.state_folder(), home.socket().parent().unwrap().to_owned()]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("token.") || name.contains(".json."))
        .collect();
    assert!(litter.is_empty(), "{litter:?}");
}

/// Connections without a token, of clients that ask a lot and read nothing, or ask now and then.
#[test]
fn connections_without_a_token_are_closed() {
    let home = Home::new();
    let gate = Gate::new(&home);
    let bytes = |raw: &str| gate.fill(raw).into_bytes();
    let greedy = bytes(&format!("GET /page/page.css HTTP/1.1\r\n{HOST}\r\n")).repeat(1000);
    let patient = bytes(&format!("GET /health HTTP/1.1\r\n{HOST}\r\n"));
    let mut held = Vec::new();
    for number in 0..400 {
        let Ok(mut connection) = gate.endpoint.connect() else { continue };
        match number {
            // More than there are connection slots.
            ..300 => connection.write(&greedy),
            300..350 => connection.write(&patient),
            _ => {}
        }
        held.push(connection);
    }
    // Requests with the token are answered all the time.
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(3) {
        let asked = std::time::Instant::now();
        assert_eq!(gate.ping(&format!("{HOST}{AUTH}")), 200);
        let took = asked.elapsed();
        assert!(took < std::time::Duration::from_secs(4), "an answer took {took:?}");
        for connection in &mut held {
            connection.write(&patient);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Without a token, the first answer on a connection is also the last.
    let mut connection = gate.endpoint.connect().unwrap();
    connection.write(&patient);
    let answer = connection.response(false).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    connection.write(&patient);
    assert!(connection.response(false).is_err());
    // A silent connection is closed, too.
    let mut silent = gate.endpoint.connect().unwrap();
    silent.set_timeout(std::time::Duration::from_secs(30));
    assert!(silent.response(false).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
}

#[test]
fn connections_with_the_token_stay_open() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let gate = Gate::new(&home);
    let mut connection = gate.endpoint.connect().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kid_suite","arguments":{"action":"call","subtool":"slow","args":{"ms":12000}}}}"#;
    let request = |body: &str| {
        gate.fill(&format!(
            "POST /proxy HTTP/1.1\r\n{HOST}{AUTH}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    connection.write(request(call).as_bytes());
    // Meanwhile others open more connections than there are slots.
    let others: Vec<_> = (0..400).map(|_| gate.endpoint.connect()).collect();
    let answer = connection.response(false).unwrap();
    assert!(answer.text().contains("\"ok\":true"), "{}", answer.text());
    assert_eq!(answer.header("connection"), None);
    connection.write(request(PING).as_bytes());
    assert_eq!(connection.response(false).unwrap().status, 200);
    drop(others);
}

#[test]
fn pages_of_other_sites_are_refused() {
    let home = Home::new();
    let gate = Gate::new(&home);
    let get = |path: &str, headers: &str| {
        let raw = gate.fill(&format!("GET {path} HTTP/1.1\r\n{HOST}{headers}\r\n"));
        gate.endpoint.raw(raw.as_bytes(), false)
    };
    for path in ["/health", "/version", "/ready", "/status", "/suites", "/page/page.js", "/"] {
        for site in ["cross-site", "same-site"] {
            let from = format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: no-cors\r\n");
            assert_eq!(get(path, &from).status, 403, "{path} {site}");
            assert_eq!(get(path, &format!("{from}{AUTH}")).status, 403, "{path} {site}");
        }
        // Our own page, and an address typed by the user.
        for site in ["same-origin", "none"] {
            let answer = get(path, &format!("Sec-Fetch-Site: {site}\r\n{AUTH}"));
            assert_eq!(answer.status, 200, "{path} {site}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
            assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        }
    }
    // `switchboard open` opens the page from a local file.
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    assert_eq!(get("/", link).status, 200);
    assert_eq!(get("/health", link).status, 403);
    let answer = gate
        .fill(&format!("POST /proxy HTTP/1.1\r\n{HOST}{AUTH}Content-Length: {}\r\n\r\n{PING}", PING.len()));
    let answer = gate.endpoint.raw(answer.as_bytes(), false);
    assert_eq!((answer.status, answer.header("x-content-type-options")), (200, Some("nosniff")));
}
