//! The host of a client scenario. It registers the suite's server as a remote child of its own daemon and
//! uses it through a shim, in the scenario's era. It accepts every question, and opens every page and follows
//! its redirects.
//!
//! A failed call does not fail the scenario: the suite's server judges by the requests that it sees.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::authority::browse;
use crate::shim::answer_id;
use crate::{Endpoint, Home, Shim};

const CHILD: &str = "far";

/// Our client ID metadata document, for the scenarios that require one.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// How often a modern host retries a request with answers.
const MAX_ROUNDS: usize = 8;

#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    /// The address of its server.
    pub url: String,
    pub is_modern: bool,
    /// Context that the suite gives its client, or null.
    pub context: Value,
}

/// Plays the host for one scenario.
pub fn play(scenario: &Scenario) {
    let home = prepare_home(scenario);
    let _daemon = home.daemon();
    let mut host = Host { shim: home.raw_shim(), is_modern: scenario.is_modern, next: 1 };
    if !host.is_modern {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities(),
            "clientInfo": { "name": "conformance-client", "version": "1" },
        });
        host.request("initialize", params);
        host.shim.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
    let tools = host.introspect();
    let calls = match scenario.context["toolCalls"].as_array() {
        Some(calls) => calls.iter().map(|call| (text(&call["name"]), call["arguments"].clone())).collect(),
        None => {
            tools.iter().map(|tool| (text(&tool["name"]), example(&tool["inputSchema"]))).collect::<Vec<_>>()
        }
    };
    for (name, mut arguments) in calls {
        // Echoes the listed schema unchanged.
        if name == "json_schema_echo" {
            let listed = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
            arguments["schema"] = listed.map_or(Value::Null, |tool| tool["inputSchema"].clone());
        }
        host.call(&name, &arguments);
        // A server that changes its authorization after the first call is called a second time.
        if scenario.name.starts_with("auth/authorization-server") {
            host.call(&name, &arguments);
        }
    }
    if scenario.name.contains("headers") {
        host.read_all();
    }
}

fn prepare_home(scenario: &Scenario) -> Home {
    let home = Home::new();
    let no_keyring = format!(
        "export PATH=/usr/local/bin:/usr/bin:/bin\nexport DBUS_SESSION_BUS_ADDRESS=unix:path={}/no-bus\n",
        home.mark()
    );
    home.write(".profile", &no_keyring);
    let mut oauth = json!({});
    if scenario.name.ends_with("cimd") {
        oauth["clientIdUrl"] = DOCUMENT.into();
    }
    if let Some(id) = scenario.context["client_id"].as_str() {
        let mut client = json!({ "clientId": id });
        for (key, given) in [("clientSecret", "client_secret"), ("issuer", "issuer")] {
            if let Some(value) = scenario.context[given].as_str() {
                client[key] = value.into();
            }
        }
        // A user who registered a client knows its issuer; the suite does not name it.
        if client["issuer"].is_null() {
            client["issuer"] = issuer_of(&scenario.url);
        }
        oauth["clients"] = json!({ CHILD: client });
    }
    home.config(&json!({ "oauth": oauth }));
    home.definition(CHILD, &json!({ "mcpServers": { CHILD: { "url": scenario.url } } }).to_string());
    home
}

/// The authorization server that the server's own metadata names.
fn issuer_of(server: &str) -> Value {
    let (host, path) = server
        .strip_prefix("http://")
        .map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len())))
        .expect("a server on this machine");
    let address = host.to_socket_addrs().ok().and_then(|mut all| all.find(|address| address.is_ipv4()));
    let endpoint = Endpoint::Tcp(address.expect("its address"));
    let places = [
        format!("/.well-known/oauth-protected-resource{path}"),
        "/.well-known/oauth-protected-resource".to_owned(),
    ];
    let documents = places.iter().map(|place| endpoint.get(place)).filter(|answer| answer.status == 200);
    documents
        .map(|document| document.json()["authorization_servers"][0].clone())
        .find(|issuer| issuer.is_string())
        .unwrap_or_default()
}

fn capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

struct Host {
    shim: Shim,
    is_modern: bool,
    next: u64,
}

impl Host {
    fn introspect(&mut self) -> Vec<Value> {
        let answer = self.suite(&json!({ "action": "introspect" }));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let listed: Value = serde_json::from_str(text).unwrap_or_default();
        if listed["tools"].is_null() {
            eprintln!("conformance-client: no tools: {answer}");
        }
        listed["tools"].as_array().cloned().unwrap_or_default()
    }

    fn call(&mut self, name: &str, arguments: &Value) {
        let answer = self.suite(&json!({ "action": "call", "subtool": name, "args": arguments }));
        eprintln!("conformance-client: {name}: {answer}");
    }

    fn suite(&mut self, arguments: &Value) -> Value {
        self.request("tools/call", json!({ "name": format!("{CHILD}_suite"), "arguments": arguments }))
    }

    /// Reads every resource and gets every prompt.
    fn read_all(&mut self) {
        let listed = self.request("resources/list", json!({}));
        for resource in listed["result"]["resources"].as_array().cloned().unwrap_or_default() {
            self.request("resources/read", json!({ "uri": resource["uri"] }));
        }
        let listed = self.request("prompts/list", json!({}));
        for prompt in listed["result"]["prompts"].as_array().cloned().unwrap_or_default() {
            self.request("prompts/get", json!({ "name": prompt["name"] }));
        }
    }

    /// Sends a request until its final answer, answering all questions in between.
    fn request(&mut self, method: &str, mut params: Value) -> Value {
        for _ in 0..MAX_ROUNDS {
            if self.is_modern {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": capabilities(),
                    "io.modelcontextprotocol/clientInfo": { "name": "conformance-client", "version": "1" },
                });
            }
            let answer = self.once(method, &params);
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                return answer;
            }
            let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers: serde_json::Map<_, _> =
                asked.iter().map(|(key, request)| (key.clone(), agree(request))).collect();
            params["inputResponses"] = answers.into();
            params["requestState"] = result["requestState"].clone();
        }
        Value::Null
    }

    fn once(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.shim.send(&request.to_string());
        let end = Instant::now() + REQUEST_TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.shim.receive_within(left) else {
                eprintln!("conformance-client: no answer to `{method}`\n{}", self.shim.stderr());
                return Value::Null;
            };
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if answer_id(&line).as_deref() == Some(&id.to_string()) {
                return message;
            }
            if message["method"].is_string() && !message["id"].is_null() {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": agree(&message) });
                self.shim.send(&answer.to_string());
            }
        }
    }
}

/// The answer of a user who accepts everything.
fn agree(request: &Value) -> Value {
    let params = &request["params"];
    match request["method"].as_str() {
        Some("elicitation/create") if params["mode"] == "url" => {
            let visit = browse(params["url"].as_str().unwrap_or_default());
            eprintln!("conformance-client: the page led to {} ({})", visit.url, visit.status);
            json!({ "action": "accept" })
        }
        Some("elicitation/create") => {
            json!({ "action": "accept", "content": filled(&params["requestedSchema"]) })
        }
        Some("roots/list") => json!({ "roots": [] }),
        _ => {
            json!({ "role": "assistant", "content": { "type": "text", "text": "ok" }, "model": "none" })
        }
    }
}

/// Form content from the schema's defaults, or example values.
fn filled(schema: &Value) -> Value {
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let value = |field: &Value| match field.get("default") {
        Some(default) => default.clone(),
        None => something(field),
    };
    fields.iter().map(|(name, field)| (name.clone(), value(field))).collect::<serde_json::Map<_, _>>().into()
}

/// Example arguments for a tool.
fn example(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let names = required.iter().filter_map(Value::as_str);
    let given = names.map(|name| (name.to_owned(), something(&schema["properties"][name])));
    given.collect::<serde_json::Map<_, _>>().into()
}

fn something(field: &Value) -> Value {
    match field["type"].as_str() {
        Some("number" | "integer") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => match field["enum"].as_array().and_then(|all| all.first()) {
            Some(first) => first.clone(),
            None => json!("x"),
        },
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
