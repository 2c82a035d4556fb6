//! Proof Key for Code Exchange (RFC 7636): only who asked for a code can exchange it. Pure, except for random
//! bytes.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use switchboard_wire::random;

use crate::system::secrets::SecretString;

/// The secret of one authorization request; its challenge goes ahead, itself comes with the code.
#[derive(Debug)]
pub struct Verifier(SecretString);

impl Verifier {
    pub fn random() -> Self {
        Self(SecretString::new(BASE64_URL_SAFE_NO_PAD.encode(random::bytes::<32>())))
    }

    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// The challenge by the method `S256`.
    pub fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.reveal()))
    }
}

/// A `state`: it ties what comes back from the page to the request.
pub fn random_state() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(random::bytes::<16>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_that_of_the_specification() {
        let verifier = Verifier(SecretString::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned()));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_verifier_has_43_letters_and_is_not_printed() {
        let verifier = Verifier::random();
        assert_eq!(verifier.reveal().len(), 43);
        assert_ne!(verifier.reveal(), Verifier::random().reveal());
        assert!(!format!("{verifier:?}").contains(verifier.reveal()));
        assert_eq!(random_state().len(), 22);
    }
}
