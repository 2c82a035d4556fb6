//! Completions and manual pages: shells and man accept them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::process::{Command, Stdio};

use proto_tests::{Home, bins};

fn said(home: &Home, args: &[&str]) -> String {
    let output = home.command(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Feeds `text` to a program and returns its complaints; `None` if the program is not installed.
fn fed(program: &str, args: &[&str], text: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "100");
    let mut reader =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let mut stdin = reader.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let output = reader.wait_with_output().unwrap();
    writer.join().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { complaints } else { format!("{}: {complaints}", output.status) })
}

#[test]
fn completions_are_accepted_by_the_shells_they_are_for() {
    let home = Home::new();
    for (shell, args) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let script = said(&home, &["completions", shell]);
        match fed(shell, args, &script) {
            Some(complaints) => assert_eq!(complaints, "", "{shell}"),
            None => eprintln!("{shell} is not on this machine: its completions were made and not read"),
        }
    }
    assert_eq!(home.command(&["completions", "tcsh"]).status.code(), Some(2));
}

/// What the shell's own script offers at the end of a line.
fn completed(home: &Home, shell: &str, line: &str) -> Option<Vec<String>> {
    let script = said(home, &["completions", shell]);
    let words: Vec<&str> = line.split(' ').collect();
    let program = match shell {
        "bash" => format!(
            "{script}\nCOMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({line}) COMP_CWORD={}\ncompopt() {{ :; }}\n\
             _switchboard\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            line.len(),
            words.len() - 1
        ),
        // The functions of the completion system, reduced to printing what they are given.
        "zsh" => format!(
            "compdef() {{ :; }}\n_describe() {{ local name=$3; print -l -- \"${{(@P)name}}\"; }}\n{script}\n\
             words=({}) CURRENT={}\n_switchboard\n",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len()
        ),
        _ => format!("{script}\ncomplete -C '{line}'\n"),
    };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bins().switchboard.parent().unwrap().display());
    let output = Command::new(shell)
        .args(if shell == "bash" { &["--norc", "-c"][..] } else { &["-c"] })
        .arg(&program)
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .env("PATH", path)
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        eprintln!("{shell} is not on this machine");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let word = |line: &str| line.split(['\t', ':']).next().unwrap().to_owned();
    Some(text.lines().filter(|line| !line.is_empty()).map(word).collect())
}

#[test]
fn shells_complete_commands_and_values() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("kitchen", &["echo"]);
    home.run_ok(&["--dry-run"]);
    for shell in ["bash", "zsh", "fish"] {
        for (line, wanted) in [
            ("switchboard intro", &["introspect"][..]),
            ("switchboard status --wat", &["--watch"]),
            ("switchboard explain ki", &["kid", "kitchen"]),
            ("switchboard call kid slo", &["slow"]),
            ("switchboard introspect kid_suite slo", &["slow"]),
            ("switchboard call kid slow m", &["ms="]),
            ("switchboard setup --host claude-", &["claude-code", "claude-desktop"]),
            ("switchboard setup --host cursor,cod", &["cursor,codex"]),
            ("switchboard man uninst", &["uninstall"]),
        ] {
            let Some(words) = completed(&home, shell, line) else { break };
            assert_eq!(words, wanted, "{shell}: {line}");
        }
    }
    assert!(home.daemons().is_empty() && home.children().is_empty(), "completion started something");
}

#[test]
fn there_is_a_page_for_every_command() {
    let home = Home::new();
    let folder = home.workspace().join("man1");
    said(&home, &["man", "--out", folder.to_str().unwrap()]);
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let wanted = ["switchboard.1", "switchboardd.1", "switchboard-call.1", "switchboard-secret-set.1"];
    assert!(wanted.iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("overview")), "{names:?}");
    for name in &names {
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        let title = name.trim_end_matches(".1");
        assert!(page.contains(&format!(".TH {title} 1")), "{name}: {}", &page[..200.min(page.len())]);
        // Uses whichever of these programs is installed.
        if let Some(complaints) = fed("man", &["--warnings", "--local-file", "-E", "UTF-8", "-"], &page) {
            assert_eq!(complaints, "", "{name}");
        } else if let Some(complaints) = fed("mandoc", &["-T", "lint", "-W", "error"], &page) {
            assert_eq!(complaints, "", "{name}");
        } else if let Some(complaints) = fed("groff", &["-man", "-ww", "-z", "-Tutf8"], &page) {
            assert_eq!(complaints, "", "{name}");
        }
    }
    let page = said(&home, &["man", "secret set"]);
    assert!(
        page.contains("EXAMPLES")
            || page.contains("Examples")
            || page.contains("switchboard secret set GITHUB"),
        "{page}"
    );
    let output = home.command(&["man", "statsu"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `status`"), "{output:?}");
}
