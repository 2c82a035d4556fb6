//! The person's browser.

use std::ffi::OsStr;
use std::process::Stdio;

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Whether a browser was told to open the page. It is given as one argument, to no shell, and only if it is a page.
/// Every user of this machine can read it there: no secret may be in it.
#[expect(clippy::disallowed_methods, reason = "the person's own browser, from the person's own command line")]
pub(super) fn show(page: &str) -> bool {
    if !["https://", "http://", "file:///"].iter().any(|scheme| page.starts_with(scheme)) {
        return false;
    }
    let mut command = std::process::Command::new(OPENER);
    let quiet =
        command.arg(OsStr::new(page)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some of them run as long as the browser does.
    quiet.spawn().is_ok()
}
