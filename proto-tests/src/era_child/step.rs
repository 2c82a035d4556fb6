//! The outcome of one round of a tool or prompt: a result, a fault, or questions to the host.

use serde_json::{Map, Value, json};

use super::Child;
use super::calls::Cancelled;
use super::revision::Revision;
use super::tool_context::ToolContext;
use super::wire::Fault;

/// One round of a call: its parameters, and the host's answers so far.
pub(crate) struct Round<'a> {
    pub(super) child: &'a Child,
    pub(super) context: &'a ToolContext<'a>,
    pub(super) revision: Revision,
    /// The client's capabilities.
    pub(super) client: &'a Value,
    pub(super) params: &'a Value,
    pub(super) answers: &'a Map<String, Value>,
}

pub(crate) enum Step {
    Done(Value),
    Fail(Fault),
    Ask(Ask),
}

/// A step, unless the call was cancelled meanwhile.
pub(crate) type StepResult = Result<Step, Cancelled>;

pub(crate) struct Ask {
    pub(super) questions: Vec<Question>,
    /// Whether the modern era sends a `requestState` with it.
    pub(super) stateful: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(super) key: &'static str,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Round<'_> {
    pub(super) fn argument(&self, name: &str) -> &Value {
        &self.params["arguments"][name]
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.argument(name).as_str().unwrap_or_default()
    }
}

impl Step {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Fail(Fault::invalid(message))
    }

    pub(super) fn ask(questions: Vec<Question>) -> Self {
        Self::Ask(Ask { questions, stateful: false })
    }
}

impl Question {
    pub(super) fn form(key: &'static str, message: &str, properties: &Value, required: &[&str]) -> Self {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let params = json!({"message": message, "requestedSchema": schema});
        Self { key, method: "elicitation/create", params }
    }

    pub(super) fn sampling(key: &'static str, prompt: &str, max_tokens: u32) -> Self {
        let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
        let params = json!({"messages": [message], "maxTokens": max_tokens});
        Self { key, method: "sampling/createMessage", params }
    }

    pub(super) fn roots(key: &'static str) -> Self {
        Self { key, method: "roots/list", params: json!({}) }
    }

    fn by_url(&self) -> bool {
        self.params["mode"] == "url"
    }

    /// The capabilities that a client must declare to be asked this.
    pub(super) fn needs(&self) -> Value {
        match self.method {
            "sampling/createMessage" => json!({"sampling": {}}),
            "roots/list" => json!({"roots": {}}),
            _ if self.by_url() => json!({"elicitation": {"url": {}}}),
            _ => json!({"elicitation": {}}),
        }
    }

    /// Whether the client supports this question. An elicitation capability without a mode means forms.
    pub(super) fn may_be_put_to(&self, client: &Value) -> bool {
        match self.method {
            "sampling/createMessage" => client["sampling"].is_object(),
            "roots/list" => client["roots"].is_object(),
            _ if self.by_url() => client["elicitation"]["url"].is_object(),
            _ => match client["elicitation"].as_object() {
                Some(modes) => modes.contains_key("form") || !modes.contains_key("url"),
                None => false,
            },
        }
    }

    /// Whether an answer has the shape that this question requires.
    pub(super) fn fits(&self, answer: &Value) -> bool {
        match self.method {
            "sampling/createMessage" => answer["role"].is_string() && !answer["content"].is_null(),
            "roots/list" => answer["roots"].is_array(),
            _ => matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel")),
        }
    }

    /// As an entry of `inputRequests`.
    pub(super) fn to_json(&self) -> Value {
        json!({"method": self.method, "params": self.params})
    }
}

impl Ask {
    /// The capabilities that the client lacks for these questions.
    pub(super) fn missing(&self, client: &Value) -> Option<Value> {
        let mut missing = Map::new();
        for question in self.questions.iter().filter(|question| !question.may_be_put_to(client)) {
            if let Value::Object(needs) = question.needs() {
                missing.extend(needs);
            }
        }
        (!missing.is_empty()).then_some(Value::Object(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_goes_only_to_clients_that_declared_it() {
        let form = Question::form("k", "?", &json!({}), &[]);
        let url = Question { params: json!({"mode": "url"}), ..form.clone() };
        for (client, by_form, by_url) in [
            (json!({}), false, false),
            (json!({"elicitation": {}}), true, false),
            (json!({"elicitation": {"form": {}}}), true, false),
            (json!({"elicitation": {"url": {}}}), false, true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true, true),
        ] {
            assert_eq!(form.may_be_put_to(&client), by_form, "{client}");
            assert_eq!(url.may_be_put_to(&client), by_url, "{client}");
        }
    }

    #[test]
    fn missing_capabilities_are_named() {
        let questions = vec![Question::sampling("a", "?", 1), Question::roots("b")];
        let ask = Ask { questions, stateful: false };
        assert_eq!(ask.missing(&json!({"roots": {}})), Some(json!({"sampling": {}})));
        assert_eq!(ask.missing(&json!({"roots": {}, "sampling": {}})), None);
    }

    #[test]
    fn answers_have_the_shape_of_their_question() {
        let form = Question::form("k", "?", &json!({}), &[]);
        assert!(form.fits(&json!({"action": "decline"})));
        assert!(!form.fits(&json!(12345)));
        assert!(!Question::roots("k").fits(&json!({"action": "accept"})));
    }
}
