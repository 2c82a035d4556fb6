//! A package runner runs nothing from its server's directory. Uses the real `npx`, if it is installed.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proto_tests::shim::structured;
use proto_tests::{Home, bins};
use serde_json::json;

fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The folder of `npx` and `node`.
fn npx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join("npx").is_file() && folder.join("node").is_file())
}

#[test]
fn npx_runs_nothing_of_the_servers_directory() {
    let Some(folder) = npx() else {
        eprintln!("skipped: there is no npx");
        return;
    };
    let home = Home::new();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    home.write(".profile", &format!("export PATH={path}\n"));
    let workspace = home.workspace();
    let evil = bins().evil_child.display();
    // The user's globally installed program is the one that must run.
    program(&home.path().join("global/bin/a-server"), &format!("exec {evil} echo"));
    // The repository offers its own: the program, its interpreter, a shell, and a package of the same name.
    let ran = home.path().join("ran");
    for name in ["a-server", "node", "sh", "env"] {
        let script = format!("echo {name} >> {}\nPATH={path} exec {name} \"$@\"", ran.display());
        program(&workspace.join("node_modules/.bin").join(name), &script);
    }
    let shell = workspace.join("node_modules/.bin/sh");
    fs::write(workspace.join(".npmrc"), format!("script-shell={}\n", shell.display())).unwrap();
    let global = home.path().join("global");
    let variables = [("npm_config_prefix", global.to_str().unwrap()), ("npm_config_offline", "true")];
    let mut entry = home.entry(Path::new("npx"), &["-y", "a-server"], &variables);
    entry["cwd"] = json!(workspace);
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    let _daemon = home.daemon();
    for has_package in [false, true] {
        if has_package {
            program(&workspace.join("server.sh"), &format!("echo package >> {}", ran.display()));
            let package = json!({"name": "a-server", "version": "1.0.0", "bin": {"a-server": "server.sh"}});
            fs::write(workspace.join("package.json"), package.to_string()).unwrap();
            home.run_ok(&["restart", "k"]);
        }
        let answer = home.shim().call("k", "where", "{}");
        assert!(!ran.exists(), "of the repository ran: {}", fs::read_to_string(&ran).unwrap());
        // The server runs in the configured directory.
        let told = structured(&answer);
        assert_eq!(told["cwd"], json!(workspace), "{answer}");
    }
    let told = home.command(&["explain", "k"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("never in the server's directory"), "{told}");
}

#[test]
fn a_wrapped_program_that_is_not_a_runner_starts_in_its_servers_directory() {
    let home = Home::new();
    let workspace = home.workspace();
    let evil = bins().evil_child.display().to_string();
    // The name of a runner among its arguments does not make it a runner.
    let mut entry = home.entry(Path::new("env"), &["A=1", &evil, "echo", "npx", "x"], &[]);
    entry["cwd"] = json!(workspace);
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    let _daemon = home.daemon();
    let answer = home.shim().call("k", "where", "{}");
    assert_eq!(structured(&answer)["cwd"], json!(workspace), "{answer}");
}

#[test]
fn a_wrapper_that_changes_a_runners_directory_is_refused() {
    let home = Home::new();
    let workspace = home.workspace();
    let entry = home.entry(Path::new("env"), &["-C", workspace.to_str().unwrap(), "npx", "-y", "x"], &[]);
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    let _daemon = home.daemon();
    let why = "`env -C` would start `npx` in another directory";
    let answer = home.shim().call("k", "where", "{}");
    assert!(answer.contains(why), "{answer}");
    let told = home.command(&["explain", "k"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(why), "{told}");
}
