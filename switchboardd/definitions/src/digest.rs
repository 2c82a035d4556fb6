//! SHA-256 fingerprints.

use sha2::{Digest, Sha256};

/// SHA-256 in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    switchboard_wire::hex::hex(&Sha256::digest(bytes))
}
