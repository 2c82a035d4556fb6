//! Every revision of a host with every revision of a child, over the shim, `/proxy/{child}` and
//! `/mcp/{child}`, with a local and with a remote child. Each cell connects, lists, calls, and has the child
//! ask its host something.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::conformance::{FrontServer, adapter};
use proto_tests::shim::call_params;
use proto_tests::streamable::{HttpHost, ModernHost};
use proto_tests::{Home, Shim, bins};
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";
const ASKS: &str = "test_input_required_result_elicitation";

/// The arguments that make the era child use this revision.
fn args(child: &str) -> Vec<&str> {
    if child == MODERN { vec!["--era", "modern"] } else { vec!["--era", "legacy", "--revision", child] }
}

fn home(child: &str) -> Home {
    let home = Home::new();
    let entry = home.entry(&bins().era_child, &args(child), &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    home
}

/// The same child as a remote server, over the transport of its revision.
fn home_far_away(child: &str) -> (Home, FrontServer) {
    let home = Home::new();
    let era_child = bins().era_child.to_str().unwrap();
    let command: Vec<&str> = [era_child].into_iter().chain(args(child)).collect();
    let served = adapter(&bins().stdio_adapter, &command).unwrap();
    let url = served.url(if child == "2024-11-05" { "/sse" } else { "/mcp" });
    home.definition("era", &json!({"mcpServers": {"era": {"type": "http", "url": url}}}).to_string());
    (home, served)
}

/// The `_meta` of a modern request.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "matrix", "version": "1"},
    })
}

fn params(host: &str, mut params: Value) -> String {
    if host == MODERN {
        params["_meta"] = meta();
    }
    params.to_string()
}

/// Checks that era-specific members are in the answers of their own era only.
#[track_caller]
fn fits(host: &str, method: &str, answer: &Value) {
    let result = &answer["result"];
    assert!(result.is_object(), "{answer}");
    let is_modern = host == MODERN;
    assert_eq!(result.get("resultType").is_some(), is_modern, "{answer}");
    let named = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(named.is_object(), is_modern, "{answer}");
    let is_cached = is_modern && method != "tools/call";
    for member in ["ttlMs", "cacheScope"] {
        assert_eq!(result.get(member).is_some(), is_cached, "{member}: {answer}");
    }
}

/// One way to send a request and get its answer.
trait Host {
    fn ask(&mut self, method: &str, params: &str) -> Value;
    /// Makes a call that asks a question, answers it, and returns the result of the call.
    fn asked(&mut self, host: &str) -> Value;
    fn call(&self, tool: &str) -> Value;
}

struct OverShim(Shim);

impl Host for OverShim {
    fn ask(&mut self, method: &str, params: &str) -> Value {
        serde_json::from_str(&self.0.request(method, params)).unwrap()
    }

    fn asked(&mut self, host: &str) -> Value {
        let call = self.call(ASKS);
        if host == MODERN {
            return comes_back(self, call);
        }
        let id = self.0.start_request("tools/call", &call.to_string());
        let question = self.0.notification("elicitation/create");
        let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted()});
        self.0.send(&reply.to_string());
        serde_json::from_str(&self.0.answer_to(&id.to_string())).unwrap()
    }

    fn call(&self, tool: &str) -> Value {
        serde_json::from_str(&call_params("era", tool, "{}")).unwrap()
    }
}

struct OverProxy(proto_tests::Endpoint);

impl Host for OverProxy {
    fn ask(&mut self, method: &str, params: &str) -> Value {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
        let response = self.0.post("/proxy/era", &body);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// A legacy host without a mailbox cannot be asked; the daemon declines for it.
    fn asked(&mut self, host: &str) -> Value {
        let call = self.call(ASKS);
        if host == MODERN { comes_back(self, call) } else { self.ask("tools/call", &call.to_string()) }
    }

    fn call(&self, tool: &str) -> Value {
        json!({"name": tool, "arguments": {}})
    }
}

struct OverRegistry {
    endpoint: proto_tests::Endpoint,
    session: Option<HttpHost>,
}

impl Host for OverRegistry {
    fn ask(&mut self, method: &str, params: &str) -> Value {
        let params: Value = serde_json::from_str(params).unwrap();
        if method == "initialize" {
            let (host, answer) = HttpHost::greet(self.endpoint.clone(), "/mcp/era", &params, None);
            self.session = Some(host);
            return answer;
        }
        match &self.session {
            Some(host) => host.ask(method, &params),
            None => ModernHost::new(self.endpoint.clone(), "/mcp/era").ask(method, &params),
        }
    }

    fn asked(&mut self, host: &str) -> Value {
        let call = self.call(ASKS);
        let Some(session) = self.session.clone().filter(|_| host != MODERN) else {
            return comes_back(self, call);
        };
        let mut stream =
            session.post(&json!({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": call}));
        let question = stream.message();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        session.call(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted()}));
        stream.last()
    }

    fn call(&self, tool: &str) -> Value {
        json!({"name": tool, "arguments": {}})
    }
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"name": "Ada"}})
}

/// The modern flow: the result is a question, and the host retries the request with the answer.
#[track_caller]
fn comes_back(host: &mut dyn Host, mut call: Value) -> Value {
    let answer = host.ask("tools/call", &params(MODERN, call.clone()));
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let requests = result["inputRequests"].as_object().unwrap();
    let responses: serde_json::Map<_, _> = requests.keys().map(|key| (key.clone(), accepted())).collect();
    call["inputResponses"] = responses.into();
    call["requestState"] = result["requestState"].clone();
    host.ask("tools/call", &params(MODERN, call))
}

#[track_caller]
fn check(host: &str, over: &mut dyn Host, tool: &str) -> Value {
    if host == MODERN {
        let answer = over.ask("server/discover", &params(host, json!({})));
        fits(host, "server/discover", &answer);
        assert_eq!(answer["result"]["supportedVersions"], json!([MODERN]), "{answer}");
    } else {
        let hello = json!({"protocolVersion": host, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "matrix", "version": "1"}});
        let answer = over.ask("initialize", &hello.to_string());
        assert_eq!(answer["result"]["protocolVersion"], host, "{answer}");
        fits(host, "initialize", &answer);
    }
    let listed = over.ask("tools/list", &params(host, json!({})));
    fits(host, "tools/list", &listed);
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|listed| listed["name"] == tool), "{listed}");
    for tool in tools.iter().filter(|_| host != MODERN) {
        let schema = tool.get("outputSchema");
        assert!(schema.is_none_or(|schema| schema["type"] == "object"), "{tool}");
    }
    let called = over.ask("tools/call", &params(host, over.call("test_simple_text")));
    fits(host, "tools/call", &called);
    assert_eq!(called["result"]["content"][0]["text"], "This is a simple text response for testing.");
    over.asked(host)
}

fn over_the_shim(host: &str, child: &str) {
    through_the_shim(host, &home(child));
}

fn over_the_shim_to_a_child_behind_http(host: &str, child: &str) {
    let (home, _served) = home_far_away(child);
    through_the_shim(host, &home);
}

fn through_the_shim(host: &str, home: &Home) {
    let _daemon = home.daemon();
    let mut shim = OverShim(home.raw_shim());
    let answer = check(host, &mut shim, "era_suite");
    fits(host, "tools/call", &answer);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "Hello, Ada!", "{answer}");
}

fn over_the_proxy(host: &str, child: &str) {
    through_the_proxy(host, child, &home(child));
}

fn over_the_proxy_to_a_child_behind_http(host: &str, child: &str) {
    let (home, _served) = home_far_away(child);
    through_the_proxy(host, child, &home);
}

fn through_the_proxy(host: &str, child: &str, home: &Home) {
    let daemon = home.daemon();
    let answer = check(host, &mut OverProxy(daemon.endpoint()), "test_simple_text");
    if host != MODERN && child == MODERN {
        // The child knows that this host cannot be asked, and refuses the call.
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
        return;
    }
    fits(host, "tools/call", &answer);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(if host == MODERN { "Hello, Ada!" } else { "decline" }), "{answer}");
}

fn over_the_registry(host: &str, child: &str) {
    through_the_registry(host, &home(child));
}

fn over_the_registry_to_a_child_behind_http(host: &str, child: &str) {
    let (home, _served) = home_far_away(child);
    through_the_registry(host, &home);
}

fn through_the_registry(host: &str, home: &Home) {
    let daemon = home.daemon();
    let mut over = OverRegistry { endpoint: daemon.endpoint(), session: None };
    let answer = check(host, &mut over, "test_simple_text");
    fits(host, "tools/call", &answer);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "Hello, Ada!", "{answer}");
}

macro_rules! cells {
    ($check:ident $host:literal) => {
        #[test]
        fn child_2024_11_05() {
            $check($host, "2024-11-05");
        }
        #[test]
        fn child_2025_03_26() {
            $check($host, "2025-03-26");
        }
        #[test]
        fn child_2025_06_18() {
            $check($host, "2025-06-18");
        }
        #[test]
        fn child_2025_11_25() {
            $check($host, "2025-11-25");
        }
        #[test]
        fn child_2026_07_28() {
            $check($host, "2026-07-28");
        }
    };
}
macro_rules! matrix {
    ($($host:ident $revision:literal)*) => {
        mod shim {
            $(mod $host {
                use super::super::over_the_shim;
                cells! { over_the_shim $revision }
            })*
        }
        mod shim_http {
            $(mod $host {
                use super::super::over_the_shim_to_a_child_behind_http;
                cells! { over_the_shim_to_a_child_behind_http $revision }
            })*
        }
        mod proxy_http {
            $(mod $host {
                use super::super::over_the_proxy_to_a_child_behind_http;
                cells! { over_the_proxy_to_a_child_behind_http $revision }
            })*
        }
        mod registry {
            $(mod $host {
                use super::super::over_the_registry;
                cells! { over_the_registry $revision }
            })*
        }
        mod registry_http {
            $(mod $host {
                use super::super::over_the_registry_to_a_child_behind_http;
                cells! { over_the_registry_to_a_child_behind_http $revision }
            })*
        }
        mod proxy {
            $(mod $host {
                use super::super::over_the_proxy;
                cells! { over_the_proxy $revision }
            })*
        }
    };
}

matrix! {
    host_2024_11_05 "2024-11-05"
    host_2025_03_26 "2025-03-26"
    host_2025_06_18 "2025-06-18"
    host_2025_11_25 "2025-11-25"
    host_2026_07_28 "2026-07-28"
}
