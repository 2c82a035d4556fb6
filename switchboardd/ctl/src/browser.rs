//! Opens the user's browser.

use std::ffi::OsStr;
use std::process::Stdio;

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Returns whether a browser was started. The page is passed as one argument, without a shell, and only if it
/// is a web or file URL. Every local user can read that argument: it must not contain a secret.
#[expect(clippy::disallowed_methods, reason = "the person's own browser, from the person's own command line")]
pub(super) fn show(page: &str) -> bool {
    if !["https://", "http://", "file:///"].iter().any(|scheme| page.starts_with(scheme)) {
        return false;
    }
    let mut command = std::process::Command::new(OPENER);
    let quiet =
        command.arg(OsStr::new(page)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Not waited for: some openers run as long as the browser.
    quiet.spawn().is_ok()
}
