//! Checks the login shell's PATH, the kernel's inotify limits, and whether the service survives a logout.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Finding;
use crate::local_config::LocalConfig;
use crate::shell_word::shell_word;

/// The programs that most servers are started with.
const RUNNERS: [&str; 4] = ["node", "npx", "uvx", "docker"];
/// Below these limits, an editor and a build leave too few.
const FEW_WATCHES: u64 = 16_384;
const FEW_INSTANCES: u64 = 32;

/// The programs of this installation that are not beside this one, or of another version.
fn missing_programs(ours: &Path) -> Vec<Finding> {
    let fix = "install all programs of one release of Switchboard, side by side";
    let problem = |name: &str| {
        let file = ours.with_file_name(name);
        if !is_program(&file) {
            return Some(format!("`{}` is missing", file.display()));
        }
        let found = version(&file)?;
        (found != env!("CARGO_PKG_VERSION")).then(|| {
            format!("`{}` is version {found}, this command {}", file.display(), env!("CARGO_PKG_VERSION"))
        })
    };
    let programs = ["switchboardd", "switchboard", "switchboard-guard"];
    programs
        .iter()
        .filter_map(|name| problem(name))
        .map(|what| Finding::error("programs", what, fix))
        .collect()
}

/// The version that a program prints after its name.
#[expect(clippy::disallowed_methods, reason = "programs of our own, which are no children")]
fn version(program: &Path) -> Option<String> {
    let printed = std::process::Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(printed.stdout).ok()?;
    text.trim().rsplit(' ').next().map(str::to_owned).filter(|version| !version.is_empty())
}

/// The PATH for servers, and whether our own programs are on it.
pub(super) async fn path(local: &LocalConfig) -> Vec<Finding> {
    let shell_environment = local.resolver.shell_environment().await;
    let path = shell_environment.variables.path();
    let found =
        |name: &str| path.split(':').map(|folder| Path::new(folder).join(name)).find(|file| is_program(file));
    let shell = shell_environment.variables.get("SHELL").unwrap_or("your login shell");
    let runners: Vec<String> = RUNNERS
        .iter()
        .map(|name| match found(name) {
            Some(file) => format!("{name} is {}", file.display()),
            None => format!("no {name}"),
        })
        .collect();
    let mut findings = vec![Finding::fine(
        "path",
        format!("PATH for servers, from {shell}: {path}\n{}", runners.join(", ")),
    )];
    let Ok(ours) = std::env::current_exe() else { return findings };
    findings.extend(missing_programs(&ours));
    let mut missing: Vec<&str> = Vec::new();
    for (name, ours) in ["switchboardd", "switchboard"].map(|name| (name, ours.with_file_name(name))) {
        let same = |file: &PathBuf| file.canonicalize().ok() == ours.canonicalize().ok();
        match found(name) {
            Some(file) if !same(&file) => {
                let what =
                    format!("`{name}` on your PATH is {}, this one is {}", file.display(), ours.display());
                findings.push(Finding::warning(
                    "path",
                    what,
                    "switchboard restart  # of the one that you mean to use",
                ));
            }
            Some(_) => {}
            None => missing.push(name),
        }
    }
    if !missing.is_empty() {
        let folder = ours.parent().unwrap_or(Path::new("/"));
        let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        let is = if names.len() == 1 { "is" } else { "are" };
        let what = format!(
            "{} {is} not on your login shell's PATH; editors need the whole path, {}",
            names.join(" and "),
            ours.with_file_name("switchboard").display()
        );
        let fix = format!("echo 'export PATH=\"$PATH\":{}' >> ~/.profile", shell_word(folder));
        findings.push(Finding::warning("path", what, fix));
    }
    findings
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Whether enough folders can be watched.
pub(super) fn watches(status: Option<&Value>) -> Option<Finding> {
    let limit = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse::<u64>().ok()
    };
    let (watches, instances) = (limit("max_user_watches")?, limit("max_user_instances")?);
    let used = status.and_then(|status| status["watchedFolders"].as_u64());
    let polls = status.is_some_and(|status| status["watchFailed"] == true);
    Some(judged(watches, instances, used, polls))
}

fn judged(watches: u64, instances: u64, used: Option<u64>, polls: bool) -> Finding {
    let used = used.map_or(String::new(), |used| format!("; the daemon uses {used}"));
    if polls {
        let what = format!("no more folders can be watched (limit {watches}{used}): changes are seen later");
        return Finding::warning("inotify", what, raise("max_user_watches", 524_288));
    }
    if watches < FEW_WATCHES {
        let what = format!("only {watches} folders of all your programs can be watched{used}");
        return Finding::warning("inotify", what, raise("max_user_watches", 524_288));
    }
    if instances < FEW_INSTANCES {
        let what = format!("only {instances} of your programs can watch folders");
        return Finding::warning("inotify", what, raise("max_user_instances", 512));
    }
    Finding::fine("inotify", format!("{watches} folders can be watched{used}"))
}

fn raise(name: &str, to: u64) -> String {
    format!("echo fs.inotify.{name}={to} | sudo tee /etc/sysctl.d/60-inotify.conf && sudo sysctl --system")
}

/// A user's service ends with their last login, unless lingering is on.
pub(super) fn linger(home: &Path) -> Option<Finding> {
    let own = std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let wanted = own.join("systemd/user/sockets.target.wants/switchboardd.socket");
    let enabled = wanted.symlink_metadata().is_ok()
        || own.join("systemd/user/default.target.wants/switchboardd.service").symlink_metadata().is_ok();
    let user = std::env::var("USER").ok()?;
    if !enabled || Path::new("/var/lib/systemd/linger").join(&user).exists() {
        return None;
    }
    let what = "the service ends when you log out: lingering is off";
    Some(Finding::warning("linger", what, "loginctl enable-linger"))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn few_watches_are_reported_with_a_fix() {
        assert_eq!(judged(524_288, 1024, Some(9), false).severity, Severity::Fine);
        for (watches, instances, polls, named) in [
            (8_192, 1024, false, "max_user_watches"),
            (524_288, 16, false, "max_user_instances"),
            (524_288, 1024, true, "max_user_watches"),
        ] {
            let finding = judged(watches, instances, None, polls);
            assert_eq!(finding.severity, Severity::Warning);
            assert!(finding.fix.unwrap().contains(named));
        }
    }
}
