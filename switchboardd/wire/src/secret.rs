//! Compares secrets.

use subtle::ConstantTimeEq;

/// Whether two secrets are equal. The time it takes does not reveal where they differ.
pub fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    given.ct_eq(wanted).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_secrets_are_the_same() {
        assert!(is_same(b"", b"") && is_same(b"abc", b"abc"));
        for other in [b"abd".as_slice(), b"ab", b"abcd", b""] {
            assert!(!is_same(other, b"abc"));
        }
    }
}
