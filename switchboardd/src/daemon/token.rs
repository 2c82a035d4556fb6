//! The bearer token for TCP: random, in a file that only its owner can read, the same across restarts.

use std::io;
use std::path::Path;

use switchboard_wire::runtime_paths::private_folder;

use switchboard_wire::event_loop::may_block;

pub(super) const TOKEN_BYTES: usize = 32;

pub(super) fn obtain(file: &Path) -> io::Result<String> {
    may_block();
    if let Some(folder) = file.parent() {
        private_folder(folder)?;
    }
    if let Some(token) = read_token(file) {
        return Ok(token);
    }
    let token = switchboard_wire::random::hex(TOKEN_BYTES);
    switchboard_definitions::files::replace(file, token.as_bytes())?;
    Ok(token)
}

/// A token that others could have read, or that is malformed, is not used again.
fn read_token(file: &Path) -> Option<String> {
    let text = switchboard_definitions::files::private::read(file, 4 * TOKEN_BYTES as u64).ok()??;
    let token = String::from_utf8(text).ok()?.trim().to_owned();
    (token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_reused_unless_others_could_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s/token");
        let first = obtain(&file).unwrap();
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(obtain(&file).unwrap(), first);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let second = obtain(&file).unwrap();
        assert_ne!(second, first);
        std::fs::write(&file, "short").unwrap();
        assert_ne!(obtain(&file).unwrap(), "short");
    }
}
