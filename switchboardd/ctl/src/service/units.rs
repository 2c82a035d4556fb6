//! The files for the service manager, made from the same texts that a package ships.

use std::path::{Path, PathBuf};

const SERVICE: &str = include_str!("../../units/switchboardd.service");
const SOCKET: &str = include_str!("../../units/switchboardd.socket");
const AGENT: &str = include_str!("../../units/dev.switchboard.switchboardd.plist");

/// Marks files that we may replace and delete.
const HEADER_LINE: &str = "Written by `switchboard service install`";
const PACKAGED_PROGRAM: &str = "/usr/bin/switchboardd";
const SOCKET_SPECIFIER: &str = "%t/switchboard/switchboard.sock";

/// What the service runs, and its socket.
#[derive(Debug)]
pub(super) struct ServiceSpec {
    pub(super) program: PathBuf,
    pub(super) config: Option<PathBuf>,
    pub(super) socket: PathBuf,
}

/// Whether `install` wrote this text.
pub(super) fn is_ours(text: &str) -> bool {
    text.lines().take(3).any(|line| line.contains(HEADER_LINE))
}

fn mark(open: &str, close: &str) -> String {
    format!(
        "{open}{HEADER_LINE} {}; `switchboard service remove` deletes it.{close}\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Name and text of the service unit.
pub(super) fn service(wanted: &ServiceSpec) -> (&'static str, String) {
    let mut command = vec![quoted(&wanted.program)];
    if let Some(config) = &wanted.config {
        command.extend(["--config".to_owned(), quoted(config)]);
    }
    let text = SERVICE
        .replace(&format!("ExecStart={PACKAGED_PROGRAM}"), &format!("ExecStart={}", command.join(" ")));
    ("switchboardd.service", mark("# ", "") + &text)
}

pub(super) fn socket(wanted: &ServiceSpec) -> (&'static str, String) {
    let path = wanted.socket.display().to_string().replace('%', "%%");
    let text = SOCKET.replace(&format!("ListenStream={SOCKET_SPECIFIER}"), &format!("ListenStream={path}"));
    ("switchboardd.socket", mark("# ", "") + &text)
}

/// Name and text of the launch agent's property list.
pub(super) fn agent(wanted: &ServiceSpec, home: &Path) -> (&'static str, String) {
    let escaped = |path: &Path| {
        let text = path.display().to_string();
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let mut program = escaped(&wanted.program);
    if let Some(config) = &wanted.config {
        program +=
            &format!("</string>\n        <string>--config</string>\n        <string>{}", escaped(config));
    }
    let text = AGENT.replace("@HOME@/.local/state/switchboard/switchboard.sock", &escaped(&wanted.socket));
    let text = text.replace("<string>@HOME@", &format!("<string>{}", escaped(home)));
    let text = text.replace("<string>@PROGRAM@", &format!("<string>{program}"));
    // The XML declaration must stay first.
    let (declaration, rest) = text.split_once('\n').unwrap_or_default();
    ("dev.switchboard.switchboardd.plist", format!("{declaration}\n{}{rest}", mark("<!-- ", " -->")))
}

/// Quotes one word of a unit's command line: systemd expands nothing in it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.replace('\\', r"\\").replace('"', r#"\""#).replace('%', "%%").replace('$', "$$");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(program: &str) -> ServiceSpec {
        ServiceSpec {
            program: program.into(),
            config: Some("/home/me/a & b.json".into()),
            socket: "/run/user/7/switchboard/switchboard.sock".into(),
        }
    }

    #[test]
    fn units_name_what_is_installed_and_are_recognised() {
        let (_, service) = service(&wanted("/home/me/100% \"mine\"/$x/switchboardd"));
        let line = service.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            r#"ExecStart="/home/me/100%% \"mine\"/$$x/switchboardd" --config "/home/me/a & b.json""#
        );
        let (_, socket) = socket(&wanted("/x"));
        assert!(socket.contains("\nListenStream=/run/user/7/switchboard/switchboard.sock\n"), "{socket}");
        assert!(is_ours(&service) && is_ours(&socket));
        assert!(!is_ours(SERVICE) && !is_ours(SOCKET) && !is_ours(AGENT));
    }

    #[test]
    fn the_agent_has_no_placeholder_left() {
        let (_, agent) = agent(&wanted("/Users/me/<bin>/switchboardd"), Path::new("/Users/me"));
        assert!(agent.starts_with("<?xml") && is_ours(&agent));
        assert!(!agent.contains("<string>@"), "{agent}");
        let agent = plist::Value::from_reader_xml(agent.as_bytes()).unwrap();
        let agent = agent.as_dictionary().unwrap();
        let text = |value: &plist::Value| value.as_string().unwrap().to_owned();
        let program: Vec<_> = agent["ProgramArguments"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(program, ["/Users/me/<bin>/switchboardd", "--config", "/home/me/a & b.json"]);
        assert_eq!(text(&agent["Label"]), "dev.switchboard.switchboardd");
        assert!(!agent.contains_key("StandardErrorPath"), "the daemon's own files are rotated");
        let socket = agent["Sockets"].as_dictionary().unwrap()["Switchboard"].as_dictionary().unwrap();
        assert_eq!(text(&socket["SockPathName"]), "/run/user/7/switchboard/switchboard.sock");
        assert_eq!(socket["SockPathMode"].as_signed_integer(), Some(0o600));
        let keep = agent["KeepAlive"].as_dictionary().unwrap();
        assert_eq!(keep["SuccessfulExit"].as_boolean(), Some(false));
    }
}
