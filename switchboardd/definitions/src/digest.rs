//! SHA-256 fingerprints.

use sha2::{Digest, Sha256};

/// The first half of SHA-256, for comparing texts in memory.
pub fn short(bytes: &[u8]) -> u128 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// SHA-256 in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    switchboard_wire::hex::hex(&Sha256::digest(bytes))
}
