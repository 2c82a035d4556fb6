//! `cargo demo`: builds everything, serves the example children, and talks to them as an editor does, through
//! the shim. Prints what a host sees and what that saves.

#![expect(clippy::print_stdout, reason = "this program shows something to a person")]

use std::error::Error;
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?;
    println!("building switchboardd, switchboard and the example children (release) …");
    build(root)?;
    let bin = root.join("target/release");
    let folder = PrivateFolder::new()?;
    let socket = folder.0.join("demo.sock");
    let _daemon = Daemon::start(&bin, root, &folder.0, &socket)?;

    let mut host = Host::start(&bin, &socket)?;
    host.ask("initialize", &json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"},
    }))?;
    host.tell("notifications/initialized")?;

    println!("\n── tools/list: what a model is shown ──");
    let listed = host.ask("tools/list", &json!({}))?;
    for tool in listed["tools"].as_array().ok_or("no tools")? {
        println!(
            "  {:<12} {}",
            tool["name"].as_str().unwrap_or("?"),
            tool["description"].as_str().unwrap_or("?")
        );
    }

    println!("\n── introspect: {{\"action\":\"introspect\",\"query\":\"sort lines\"}} on text_suite ──");
    let found = host.suite("text_suite", &json!({"action": "introspect", "query": "sort lines"}))?;
    println!("  {found}");

    println!("\n── call: one subtool of each child ──");
    let sorted = host.suite(
        "text_suite",
        &json!({"action": "call", "subtool": "sort_lines", "args": {"text": "pear\napple\nfig"}}),
    )?;
    println!("  text_suite  sort_lines  {:?}", sorted);
    let clicked = host
        .suite("mock_suite", &json!({"action": "call", "subtool": "click", "args": {"selector": "#ok"}}))?;
    println!("  mock_suite  click       {clicked}");

    println!("\n── switchboard savings ──");
    println!("{}", savings(&bin, &socket)?);
    println!(
        "\nTry it yourself, in a second terminal while a daemon of your own runs (`target/release/switchboard start`):"
    );
    println!("  curl --unix-socket \"$(target/release/switchboard socket)\" http://localhost/suites");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the demo starts the real binaries")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// The packages of the programs that are shown.
const PACKAGES: [&str; 6] =
    ["switchboardd", "switchboard-ctl", "switchboard-guard", "switchboard-shim", "mock-child", "text-child"];

fn build(root: &Path) -> Outcome<()> {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--quiet", "--release", "--bins", "--target-dir", "target"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    // Variables that `cargo run` sets for the package of this program would make build scripts run again later.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST") || text == "LD_LIBRARY_PATH" {
            cargo.env_remove(&name);
        }
    }
    if cargo.status()?.success() { Ok(()) } else { Err("the build failed".into()) }
}

/// A folder for the demo alone, removed on drop.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn new() -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("switchboard-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Daemon(Child);

impl Daemon {
    fn start(bin: &Path, root: &Path, state: &Path, socket: &Path) -> Outcome<Self> {
        let daemon = command(bin.join("switchboardd"))
            .args(["--listen", "off", "--config"])
            .arg(root.join("examples/switchboard.config.json"))
            .arg("--socket")
            .arg(socket)
            .env("XDG_STATE_HOME", state)
            .env("LOG_LEVEL", "warn")
            .spawn()?;
        let mut daemon = Self(daemon);
        let until = Instant::now() + Duration::from_secs(10);
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            if daemon.0.try_wait()?.is_some() || Instant::now() > until {
                return Err("switchboardd did not come up".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its children.
        if !command("kill").arg(self.0.id().to_string()).status().is_ok_and(|status| status.success()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// Plays an editor towards the shim.
struct Host {
    shim: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Host {
    fn start(bin: &Path, socket: &Path) -> Outcome<Self> {
        let mut shim = command(bin.join("switchboard"))
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = shim.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(shim.stdout.take().ok_or("no stdout")?);
        Ok(Self { shim, input, output, asked: 0 })
    }

    fn tell(&mut self, method: &str) -> Outcome<()> {
        Ok(writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "method": method}))?)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the shim ended".into());
            }
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] != self.asked {
                continue;
            }
            return match answer.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(answer["error"]["message"].to_string().into()),
            };
        }
    }

    /// Calls a suite and returns the text of its answer.
    fn suite(&mut self, suite: &str, arguments: &Value) -> Outcome<String> {
        let result = self.ask("tools/call", &json!({"name": suite, "arguments": arguments}))?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(text.into()) } else { Ok(text) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

/// The output of `switchboard savings`, once the daemon knows the tools of both children.
fn savings(bin: &Path, socket: &Path) -> Outcome<String> {
    let run = |more: &[&str]| -> Outcome<String> {
        let output = command(bin.join("switchboard"))
            .arg("savings")
            .args(more)
            .arg("--socket")
            .arg(socket)
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        Err(String::from_utf8_lossy(&output.stderr).into())
    };
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let savings: Value = serde_json::from_str(&run(&["--json"])?)?;
        if savings["perSession"]["unknown"] == 0 || Instant::now() > until {
            return run(&[]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
