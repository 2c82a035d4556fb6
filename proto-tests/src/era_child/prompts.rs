//! The prompts.

use serde_json::{Value, json};

use super::content::{image, resource, text, user};
use super::step::{Question, Round, Step};

pub(super) fn list(changes: u64) -> Vec<Value> {
    let argument = |name: &str, says: &str| json!({"name": name, "description": says, "required": true});
    vec![
        json!({"name": "test_simple_prompt", "description": format!("A text (changes so far: {changes})")}),
        json!({"name": "test_prompt_with_arguments", "description": "A text with two arguments in it",
            "arguments": [argument("arg1", "The first"), argument("arg2", "The second")]}),
        json!({"name": "test_prompt_with_embedded_resource", "description": "A resource and a text",
            "arguments": [argument("resourceUri", "The resource's address")]}),
        json!({"name": "test_prompt_with_image", "description": "An image and a text"}),
        json!({"name": "test_input_required_result_prompt", "description": "Asks before it answers"}),
    ]
}

pub(super) fn get(round: &Round<'_>) -> Step {
    let messages = match round.params["name"].as_str() {
        Some("test_simple_prompt") => vec![text("This is a simple prompt for testing.")],
        Some("test_prompt_with_arguments") => {
            let (Some(one), Some(two)) = (round.argument("arg1").as_str(), round.argument("arg2").as_str())
            else {
                return Step::invalid("`arg1` and `arg2` are needed");
            };
            vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        Some("test_prompt_with_embedded_resource") => {
            let Some(uri) = round.argument("resourceUri").as_str() else {
                return Step::invalid("`resourceUri` is needed");
            };
            let embedded = resource(uri, "text/plain", "Embedded resource content for testing.");
            vec![embedded, text("Please process the embedded resource above.")]
        }
        Some("test_prompt_with_image") => vec![image(), text("Please analyze the image above.")],
        Some("test_input_required_result_prompt") => return asking(round),
        Some(name) => return Step::invalid(format!("unknown prompt `{name}`")),
        None => return Step::invalid("`name` is needed"),
    };
    messages_of(&messages)
}

fn asking(round: &Round<'_>) -> Step {
    let Some(answer) = round.answers.get("user_context") else {
        return Step::ask(vec![Question::form(
            "user_context",
            "What context should the prompt use?",
            &json!({"context": {"type": "string"}}),
            &["context"],
        )]);
    };
    let context = answer["content"]["context"].as_str().unwrap_or("none was given");
    messages_of(&[text(format!("Context: {context}"))])
}

fn messages_of(contents: &[Value]) -> Step {
    let messages: Vec<_> = contents.iter().map(user).collect();
    Step::Done(json!({"messages": messages}))
}
