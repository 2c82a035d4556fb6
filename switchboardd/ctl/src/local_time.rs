//! Times as the user's clock shows them. Files and JSON have UTC.

use std::time::SystemTime;

use chrono::{DateTime, Local};

const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// `2026-11-18 14:02:11`.
pub(super) fn local(at: SystemTime) -> String {
    DateTime::<Local>::from(at).format(FORMAT).to_string()
}

/// A line that begins with a time in UTC, with the local one in its place.
pub(super) fn with_local_time(line: &str) -> String {
    let (first, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
    match DateTime::parse_from_rfc3339(first) {
        Ok(at) => format!("{}{rest}", at.with_timezone(&Local).format(FORMAT)),
        Err(_) => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_a_time_at_the_beginning_is_converted() {
        let at = UNIX_EPOCH + Duration::from_secs(1_794_787_200);
        let wanted = format!("{}  INFO daemon: started", local(at));
        assert_eq!(with_local_time("2026-11-16T00:00:00.123456Z  INFO daemon: started"), wanted);
        for other in ["", "  a second line", "2026-11-16 00:00", r#"{"timestamp":"2026-11-16T00:00:00Z"}"#] {
            assert_eq!(with_local_time(other), other);
        }
    }
}
