//! The modern era: requests are stateless, and a question is a result after which the host retries the
//! request.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::calls::CallState;
use super::revision::Revision;
use super::step::{Ask, Question, Round, Step, StepResult};
use super::tool_context::{Level, ToolContext};
use super::wire::{Answer, Fault, Request};
use super::{Child, offers, tasks};

/// Whether a request belongs to this era: it says so in `_meta`, or its method exists only in this era.
pub(super) fn claims(request: &Request) -> bool {
    request.meta("protocolVersion").is_some()
        || matches!(request.method.as_str(), "server/discover" | "subscriptions/listen")
}

/// This era has no handshake; the error names the supported revisions.
pub(super) fn initialize(request: &Request) -> Answer {
    match request.meta("protocolVersion") {
        Some(_) => Err(envelope(request).err().unwrap_or_else(|| Fault::no_method("initialize"))),
        None => Err(unsupported(&request.params["protocolVersion"])),
    }
}

pub(super) fn unsupported(requested: &Value) -> Fault {
    let data = json!({"supported": [Revision::MODERN.as_str()], "requested": requested});
    Fault::new(-32022, format!("Unsupported protocol version; supported: {}", Revision::MODERN.as_str()))
        .with(data)
}

/// `None` for a request that was cancelled, and for one that stays open.
pub(super) fn answer(child: &Arc<Child>, request: &Request, turn: &CallState) -> Option<Answer> {
    let client = match envelope(request) {
        Ok(client) => client,
        Err(fault) => return Some(Err(fault)),
    };
    let answer = match request.method.as_str() {
        "server/discover" => Ok(discover()),
        "subscriptions/listen" => {
            match child.watchers.open(&child.outbox, &request.id, &request.params["notifications"]) {
                Ok(()) => return None,
                Err(fault) => Err(fault),
            }
        }
        method if method.starts_with("tasks/") => tasks::answer(child, request, client),
        _ => call(child, request, turn, client)?,
    };
    Some(answer.map(|result| complete(&request.method, result)))
}

/// The client's capabilities, if the request's `_meta` is complete.
fn envelope(request: &Request) -> Result<&Value, Fault> {
    let version = request.meta("protocolVersion");
    let client = request.meta("clientCapabilities").filter(|client| client.is_object());
    let (Some(version), Some(client)) = (version, client) else {
        let missing: Vec<_> =
            [("protocolVersion", version.is_some()), ("clientCapabilities", client.is_some())]
                .into_iter()
                .filter(|(_, there)| !there)
                .map(|(name, _)| format!("io.modelcontextprotocol/{name}"))
                .collect();
        return Err(Fault::invalid(format!("`_meta` lacks {}", missing.join(", "))));
    };
    if version == Revision::MODERN.as_str() { Ok(client) } else { Err(unsupported(version)) }
}

fn discover() -> Value {
    json!({
        "supportedVersions": [Revision::MODERN.as_str()],
        "capabilities": offers::capabilities(Revision::MODERN),
        "instructions": offers::INSTRUCTIONS,
    })
}

fn call(child: &Arc<Child>, request: &Request, turn: &CallState, client: &Value) -> Option<Answer> {
    let answers = match given(child, request) {
        Ok(answers) => answers,
        Err(fault) => return Some(Err(fault)),
    };
    let tool = request.params["name"].as_str().filter(|_| request.method == "tools/call").unwrap_or_default();
    match tasks::task_mode(tool, client) {
        tasks::TaskMode::Refused => return Some(Err(tasks::required())),
        tasks::TaskMode::Immediate => return Some(Ok(tasks::start(child, request, client))),
        tasks::TaskMode::AfterQuestions | tasks::TaskMode::Never => {}
    }
    Some(match play(child, request, turn, client, &answers).ok()? {
        Step::Fail(fault) => Err(fault),
        Step::Done(result) if tasks::task_mode(tool, client) == tasks::TaskMode::AfterQuestions => {
            Ok(tasks::done(child, result))
        }
        Step::Done(result) => Ok(result),
        Step::Ask(ask) => question(child, request, client, &ask, &answers),
    })
}

/// Plays one round.
fn play(
    child: &Child,
    request: &Request,
    turn: &CallState,
    client: &Value,
    answers: &Map<String, Value>,
) -> StepResult {
    let context = ToolContext {
        child,
        turn,
        progress_token: request.progress_token(),
        floor: request.meta("logLevel").and_then(Level::parse),
        progress_speaks: true,
    };
    let round = Round {
        child,
        context: &context,
        revision: Revision::MODERN,
        client,
        params: &request.params,
        answers,
    };
    offers::play(&round, &request.method).unwrap_or_else(|| Ok(Step::Fail(Fault::no_method(&request.method))))
}

/// The host's answers, in this request and in earlier rounds that the state contains.
fn given(child: &Child, request: &Request) -> Result<Map<String, Value>, Fault> {
    let mut answers = match request.params.get("requestState") {
        None => Map::new(),
        Some(state) => state
            .as_str()
            .and_then(|state| child.signer.verify(&subject(request), state))
            .ok_or_else(|| Fault::invalid("`requestState` is not ours, or was changed"))?,
    };
    match request.params.get("inputResponses") {
        None => {}
        Some(Value::Object(given)) => answers.extend(given.clone()),
        Some(_) => return Err(Fault::invalid("`inputResponses` must be an object")),
    }
    if let Some(key) = answers.iter().find(|(_, answer)| !answer.is_object()).map(|(key, _)| key) {
        return Err(Fault::invalid(format!("the response `{key}` must be an object")));
    }
    Ok(answers)
}

fn subject(request: &Request) -> String {
    format!("{} {}", request.method, request.params["name"].as_str().unwrap_or_default())
}

fn question(
    child: &Child,
    request: &Request,
    client: &Value,
    ask: &Ask,
    answers: &Map<String, Value>,
) -> Answer {
    if let Some(missing) = ask.missing(client) {
        return Err(lacking(&missing));
    }
    let mut result = json!({"resultType": "input_required", "inputRequests": requests(&ask.questions)});
    if ask.stateful {
        result["requestState"] = child.signer.sign(&subject(request), answers).into();
    }
    Ok(result)
}

pub(super) fn lacking(capabilities: &Value) -> Fault {
    Fault::new(-32021, "Missing required client capability")
        .with(json!({"requiredCapabilities": capabilities}))
}

pub(super) fn requests(questions: &[Question]) -> Map<String, Value> {
    questions.iter().map(|question| (question.key.to_owned(), question.to_json())).collect()
}

/// Adds the members that every result of this era has.
fn complete(method: &str, mut result: Value) -> Value {
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": offers::server_info()});
    if result.get("resultType").is_some() {
        return result;
    }
    result["resultType"] = "complete".into();
    let caching = match method {
        "server/discover" | "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            Some((5_000, "public"))
        }
        "resources/read" => Some((0, "private")),
        _ => None,
    };
    if let Some((ttl, scope)) = caching {
        result["ttlMs"] = ttl.into();
        result["cacheScope"] = scope.into();
    }
    result
}
