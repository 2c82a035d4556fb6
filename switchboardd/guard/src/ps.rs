//! Lists processes with `/bin/ps`, for macOS. Its kernel has lists of processes and of environments, but no crate
//! offers them without `unsafe` or a C parser at build time. `ps` is part of every installation, and its columns
//! are those of POSIX. Details of one process come from the kernel.

/// The environment variable with the name of the guard's note. Descendants inherit it, so that they are found on
/// macOS after they have left the guard's session and lost their parent.
pub const GUARD_VARIABLE: &str = "SWITCHBOARD_GUARD";

/// The highest pid that macOS gives (`PID_MAX` of `sys/proc_internal.h` is one more).
#[cfg(target_os = "macos")]
const MAX_PID: u32 = 99_998;

/// The pids of all processes. If no process can be started, not even `ps`, all pids that there can be.
#[cfg(target_os = "macos")]
pub(crate) fn all_ids() -> Vec<u32> {
    output(&["-A", "-o", "pid="]).map_or_else(|| (1..=MAX_PID).collect(), |text| parse_ids(&text))
}

/// The pids of processes that were started with one of these values of an environment variable. macOS does not
/// show the environment of its own programs (`/bin/sh`) to others.
#[cfg(target_os = "macos")]
pub fn ids_with_variable<T: AsRef<[u8]>>(name: &str, values: &[T]) -> Vec<u32> {
    let text = output(&["-A", "-E", "-w", "-w", "-o", "pid=", "-o", "command="]).unwrap_or_default();
    parse_ids_with_variable(&text, name, values)
}

#[cfg(target_os = "macos")]
#[expect(clippy::disallowed_methods, reason = "the system's list of processes")]
fn output(args: &[&str]) -> Option<Vec<u8>> {
    use std::process::{Command, Stdio};
    // Values that hold other characters than ASCII are shown as they are in this locale.
    let mut command = Command::new("/bin/ps");
    command.args(args).env_clear().env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    // Another status means that a process ended meanwhile, or that none was found.
    (!output.stdout.is_empty()).then_some(output.stdout)
}

/// One pid on each line, padded with spaces.
#[cfg(any(target_os = "macos", test))]
fn parse_ids(text: &[u8]) -> Vec<u32> {
    text.split(|byte| *byte == b'\n').filter_map(|line| leading_id(line).map(|(id, _)| id)).collect()
}

/// On each line a pid, then arguments and environment with a space between the words. `ps` escapes line breaks.
#[cfg(any(target_os = "macos", test))]
fn parse_ids_with_variable<T: AsRef<[u8]>>(text: &[u8], name: &str, values: &[T]) -> Vec<u32> {
    let is_wanted = |word: &[u8]| {
        let value = word.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| values.iter().any(|wanted| wanted.as_ref() == value))
    };
    let lines = text.split(|byte| *byte == b'\n').filter_map(leading_id);
    lines.filter(|(_, rest)| rest.split(|byte| *byte == b' ').any(is_wanted)).map(|(id, _)| id).collect()
}

/// The number at the beginning of a line, and the rest.
#[cfg(any(target_os = "macos", test))]
fn leading_id(line: &[u8]) -> Option<(u32, &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(line.len());
    let id = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((id, &line[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_are_read_from_a_list() {
        assert_eq!(parse_ids(b"    1\n  345\n99998\n"), [1, 345, 99_998]);
        assert_eq!(parse_ids(b""), [0_u32; 0]);
        // A header or a message is no pid, and neither is a number that is none.
        assert_eq!(parse_ids(b"  PID\n   12\nps: no\n99999999999\n"), [12]);
    }

    /// The same columns are known to every `ps`.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the list to read")]
    fn the_list_of_this_system_holds_this_process() {
        let Ok(listed) = std::process::Command::new("ps").args(["-A", "-o", "pid="]).output() else { return };
        assert!(parse_ids(&listed.stdout).contains(&std::process::id()));
    }

    #[test]
    fn a_process_is_found_by_a_variable_it_was_started_with() {
        let text = b"    1 /sbin/launchd\n\
              77 node server.js PATH=/usr/bin:/bin SWITCHBOARD_RUN=abc HOME=/Users/me\n\
              78 sleep 60 SWITCHBOARD_RUN=abcd\n\
              79 sleep 60 XSWITCHBOARD_RUN=abc\n\
              80 sh -c echo\\012SWITCHBOARD_RUN=abc\n\
              81 python3 -m x SWITCHBOARD_RUN=other LANG=C\n";
        let found = |values: &[&str]| parse_ids_with_variable(text, "SWITCHBOARD_RUN", values);
        assert_eq!(found(&["abc"]), [77]);
        assert_eq!(found(&["abc", "other"]), [77, 81]);
        assert_eq!(found(&[]), [0_u32; 0]);
        assert_eq!(found(&[""]), [0_u32; 0]);
    }
}
