//! How long ago, as users write it.

use std::time::Duration;

/// Reads `90s`, `15m`, `1h` or `2d`.
pub(super) fn parse_since(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write it like 90s, 15m, 1h or 2d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|all| *all <= MAX_SINCE).map(Duration::from_secs).ok_or_else(wrong)
}

/// A thousand years.
const MAX_SINCE: u64 = 1000 * 366 * 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800), ("0s", 0)] {
            assert_eq!(parse_since(text), Ok(Duration::from_secs(seconds)));
        }
        for text in
            ["", "h", "1", "1 h", "-1h", "+1h", "1.5h", "1w", "1ü", "99999999999999999999s", "9999999999999d"]
        {
            assert!(parse_since(text).is_err_and(|why| why.contains("like 90s")), "{text}");
        }
    }
}
