//! `requestState`: the answers of earlier rounds, signed so that tampering is detected. The key lives as long
//! as the process. A keyed hash of the standard library is enough for a test child.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct AnswerSigner(RandomState);

impl AnswerSigner {
    pub(super) fn sign(&self, subject: &str, answers: &Map<String, Value>) -> String {
        let text = json!({"for": subject, "answers": answers}).to_string();
        format!("{text}.{:016x}", self.0.hash_one(&text))
    }

    /// The answers, if the state is ours, unchanged and for this subject.
    pub(super) fn verify(&self, subject: &str, state: &str) -> Option<Map<String, Value>> {
        let (text, mark) = state.rsplit_once('.')?;
        if mark != format!("{:016x}", self.0.hash_one(text)) {
            return None;
        }
        let state: Value = serde_json::from_str(text).ok()?;
        (state["for"] == subject).then(|| state["answers"].as_object().cloned())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_state_of_the_same_subject_opens() {
        let signer = AnswerSigner::default();
        let answers = json!({"a": {"n": 1}}).as_object().unwrap().clone();
        let state = signer.sign("tool", &answers);
        assert_eq!(signer.verify("tool", &state), Some(answers.clone()));
        assert_eq!(signer.verify("other", &state), None);
        assert_eq!(signer.verify("tool", &format!("{state}-TAMPERED")), None);
        assert_eq!(signer.verify("tool", &state.replace('1', "2")), None);
        assert_eq!(AnswerSigner::default().verify("tool", &state), None, "another process");
    }
}
