//! The tools that ask the host questions.

use serde_json::{Map, Value, json};

use super::content::{failed, says};
use super::step::{Ask, Question, Round, Step, StepResult};

pub(super) fn play(round: &Round<'_>, name: &str) -> StepResult {
    Ok(match name {
        "test_sampling" => one(round, false, Question::sampling("prompt", round.text("prompt"), 100)),
        "test_missing_capability" => one(round, false, Question::sampling("needed", "Are you there?", 10)),
        "test_input_required_result_sampling" => {
            one(round, false, Question::sampling("capital_question", "What is the capital of France?", 100))
        }
        "test_elicitation" => one(round, false, user_form(round.text("message"))),
        "test_elicitation_sep1034_defaults" => one(round, false, defaults()),
        "test_elicitation_sep1330_enums" => one(round, false, choices()),
        "test_elicitation_url" => one(round, false, address(round)),
        "test_streaming_elicitation" => {
            if round.answers.is_empty() {
                round.context.progress(0, 1, "about to ask");
            }
            one(round, false, name_form("streamed_name", "What is your name?"))
        }
        "test_input_required_result_elicitation" | "test_question_of_a_changing_tool" => greeting(round),
        "test_input_required_result_list_roots" => one(round, false, Question::roots("client_roots")),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            one(round, true, confirmation("Please confirm"))
        }
        "test_input_required_result_multiple_inputs" => all(round, true, &three_kinds()),
        "test_input_required_result_multi_round" => two_rounds(round),
        "test_input_required_result_capabilities" => whatever_is_possible(round),
        "confirm_delete" => one(round, false, confirmation(&format!("Delete {}?", round.text("filename")))),
        "multi_input" => {
            let first = name_form("first", "What is the first name?");
            all(round, false, &[first, name_form("second", "What is the second name?")])
        }
        "test_tool_with_task" => one(round, false, name_form("user_name", "What is your name?")),
        _ => Step::invalid(format!("unknown tool `{name}`")),
    })
}

/// Asks one question and reports its answer.
fn one(round: &Round<'_>, stateful: bool, question: Question) -> Step {
    all(round, stateful, &[question])
}

/// Asks all questions that have no answer yet, at once.
fn all(round: &Round<'_>, stateful: bool, questions: &[Question]) -> Step {
    let open: Vec<_> = questions.iter().filter(|question| !is_answered(round, question)).cloned().collect();
    if open.is_empty() { Step::Done(sum_up(questions, round.answers)) } else { ask(stateful, open) }
}

/// Whether a question has an answer: an error counts, an answer of the wrong shape does not.
fn is_answered(round: &Round<'_>, question: &Question) -> bool {
    let answer = round.answers.get(question.key);
    answer.is_some_and(|answer| answer.get("error").is_some() || question.fits(answer))
}

fn ask(stateful: bool, questions: Vec<Question>) -> Step {
    Step::Ask(Ask { questions, stateful })
}

fn sum_up(questions: &[Question], answers: &Map<String, Value>) -> Value {
    let mut words = Vec::new();
    for question in questions {
        let answer = &answers[question.key];
        if let Some(error) = answer.get("error") {
            return failed(format!("{}: {}", question.key, error["message"].as_str().unwrap_or("no answer")));
        }
        words.push(match question.method {
            "sampling/createMessage" => {
                format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default())
            }
            "roots/list" => format!("Roots: {}", answer["roots"]),
            _ => format!("User response: action={}, content={}", answer["action"], answer["content"]),
        });
    }
    // The suite looks for `state-ok`; it does no harm to calls without state.
    says(format!("{} (state-ok)", words.join("; ")))
}

/// Asks until it gets a name.
fn greeting(round: &Round<'_>) -> Step {
    let question = name_form("user_name", "What is your name?");
    let answer = round.answers.get("user_name");
    match answer {
        Some(answer) if answer["action"] == "accept" => match answer["content"]["name"].as_str() {
            Some(name) => Step::Done(says(format!("Hello, {name}!"))),
            None => ask(false, vec![question]),
        },
        _ => one(round, false, question),
    }
}

fn two_rounds(round: &Round<'_>) -> Step {
    let first = name_form("step1", "Step 1: What is your name?");
    let colour = json!({"color": {"type": "string"}});
    let second = Question::form("step2", "Step 2: What is your favorite color?", &colour, &["color"]);
    if round.answers.contains_key("step1") {
        all(round, true, &[first, second])
    } else {
        ask(true, vec![first])
    }
}

/// Asks only what the client declared that it supports, and accepts answers that are errors.
fn whatever_is_possible(round: &Round<'_>) -> Step {
    let kinds = three_kinds();
    let possible: Vec<_> =
        kinds.iter().filter(|question| question.may_be_put_to(round.client)).cloned().collect();
    let answered: Vec<_> = possible.iter().filter(|question| is_answered(round, question)).cloned().collect();
    if possible.is_empty() {
        return ask(false, kinds);
    }
    if answered.len() < possible.len() {
        return ask(false, possible);
    }
    let useful: Vec<_> = answered
        .iter()
        .filter(|question| round.answers[question.key].get("error").is_none())
        .cloned()
        .collect();
    Step::Done(sum_up(if useful.is_empty() { &answered } else { &useful }, round.answers))
}

fn three_kinds() -> Vec<Question> {
    vec![
        name_form("user_name", "What is your name?"),
        Question::sampling("greeting", "Generate a greeting", 50),
        Question::roots("client_roots"),
    ]
}

fn name_form(key: &'static str, message: &str) -> Question {
    Question::form(key, message, &json!({"name": {"type": "string"}}), &["name"])
}

fn confirmation(message: &str) -> Question {
    Question::form("confirm", message, &json!({"ok": {"type": "boolean"}}), &["ok"])
}

fn user_form(message: &str) -> Question {
    let properties = json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    });
    Question::form("user", message, &properties, &["username", "email"])
}

fn defaults() -> Question {
    let properties = json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    });
    Question::form("defaults", "Please review the defaults", &properties, &[])
}

fn choices() -> Question {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |what: &str| {
        json!([
            {"const": "value1", "title": format!("First {what}")},
            {"const": "value2", "title": format!("Second {what}")},
            {"const": "value3", "title": format!("Third {what}")},
        ])
    };
    let properties = json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    });
    Question::form("choices", "Please choose", &properties, &[])
}

/// The legacy era identifies questions of this mode by an additional id.
fn address(round: &Round<'_>) -> Question {
    let url = "https://example.com/confirm";
    let mut params = json!({"mode": "url", "message": "Please open this address", "url": url});
    if !round.revision.is_modern() {
        params["elicitationId"] = "era-child-confirm".into();
    }
    Question { key: "address", method: "elicitation/create", params }
}
