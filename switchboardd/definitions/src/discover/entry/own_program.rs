//! Recognizes a command that would start Switchboard as a child of itself.

/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 13] = [
    "env", "sh", "bash", "zsh", "dash", "fish", "nohup", "setsid", "nice", "timeout", "exec", "sudo",
    "stdbuf",
];
const OWN_PROGRAMS: [&str; 4] = ["switchboard", "switchboardd", "switchboard-ctl", "switchboard-guard"];

/// Whether the command is Switchboard itself, or a wrapper that would run it.
pub(super) fn would_start_switchboard(argv: &[String]) -> bool {
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let is_ours = |word: &str| OWN_PROGRAMS.contains(&base(word).as_str());
    let Some((command, args)) = argv.split_first() else { return false };
    if is_ours(command) {
        return true;
    }
    WRAPPERS.contains(&base(command).as_str())
        && args.iter().any(|arg| arg.split([' ', ';', '&', '|', '(', ')', '"', '\'']).any(is_ours))
}
