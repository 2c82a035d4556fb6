//! `requestState`: the answers of earlier rounds, signed so that tampering is detected. The key lives as long
//! as the process. A keyed hash of the standard library is enough for a test child.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct Seal(RandomState);

impl Seal {
    pub(super) fn close(&self, subject: &str, answers: &Map<String, Value>) -> String {
        let text = json!({"for": subject, "answers": answers}).to_string();
        format!("{text}.{:016x}", self.0.hash_one(&text))
    }

    /// The answers, if the state is ours, unchanged and for this subject.
    pub(super) fn open(&self, subject: &str, state: &str) -> Option<Map<String, Value>> {
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
        let seal = Seal::default();
        let answers = json!({"a": {"n": 1}}).as_object().unwrap().clone();
        let state = seal.close("tool", &answers);
        assert_eq!(seal.open("tool", &state), Some(answers.clone()));
        assert_eq!(seal.open("other", &state), None);
        assert_eq!(seal.open("tool", &format!("{state}-TAMPERED")), None);
        assert_eq!(seal.open("tool", &state.replace('1', "2")), None);
        assert_eq!(Seal::default().open("tool", &state), None, "another process");
    }
}
