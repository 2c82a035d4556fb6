//! Completions and manual pages: shells and man accept them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::process::{Command, Stdio};

use proto_tests::Home;

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
        for word in ["status", "introspect", "workspace", "no-start"] {
            assert!(script.contains(word), "{shell} does not know `{word}`");
        }
        match fed(shell, args, &script) {
            Some(complaints) => assert_eq!(complaints, "", "{shell}"),
            None => eprintln!("{shell} is not on this machine: its completions were made and not read"),
        }
    }
    assert_eq!(home.command(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn bash_completes_a_command() {
    let home = Home::new();
    let script = said(&home, &["completions", "bash"]);
    let try_it = format!(
        "{script}\nCOMP_WORDS=(switchboard intro)\nCOMP_CWORD=1\n_switchboard switchboard intro switchboard\necho \"${{COMPREPLY[@]}}\"\n"
    );
    let output = Command::new("bash").args(["--norc", "-c", &try_it]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "introspect", "{output:?}");
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
