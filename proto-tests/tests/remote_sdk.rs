//! The official Rust SDK as a remote server: with sessions, without them, and in the modern era.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use proto_tests::shim::text_of;
use proto_tests::wait::until;
use proto_tests::{Home, TEST_TIMEOUT};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::net::TcpListener;

const LEGACY: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

/// A tool that greets, and reports progress.
#[derive(Clone, Copy)]
struct Greeter(&'static [ProtocolVersion]);

impl ServerHandler for Greeter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.0)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let schema = Arc::new(schema.as_object().unwrap().clone());
        let mut list = ListToolsResult::default();
        list.tools.push(Tool::new("greet", "greets", schema));
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, 1.0);
            context
                .peer
                .notify_progress(progress)
                .await
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
        let name = request.arguments.unwrap_or_default()["name"].as_str().unwrap_or_default().to_owned();
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))]).into())
    }
}

/// A server on a separate thread; it ends with its runtime.
struct Server {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    fn start(port: u16, versions: &'static [ProtocolVersion], config: StreamableHttpServerConfig) -> Self {
        let (told, address) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = until("the port", TEST_TIMEOUT, || {
                    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
                    listener.set_nonblocking(true).unwrap();
                    TcpListener::from_std(listener).ok()
                });
                told.send(listener.local_addr().unwrap()).unwrap();
                let service: StreamableHttpService<Greeter, LocalSessionManager> =
                    StreamableHttpService::new(move || Ok(Greeter(versions)), Arc::default(), config);
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener, service) => {}
                }
            });
        });
        Self { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    fn home(&self) -> Home {
        let home = Home::new();
        let entry = json!({"type": "http", "url": format!("http://{}/mcp", self.address)});
        home.definition("sdk", &json!({"mcpServers": {"sdk": entry}}).to_string());
        home
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn serve(listener: TcpListener, service: StreamableHttpService<Greeter, LocalSessionManager>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
}

#[track_caller]
fn greets(server: &Server, revision: &str) {
    let home = server.home();
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert_eq!(text_of(&shim.call("sdk", "greet", r#"{"name":"Ada"}"#)), "Hello, Ada!");
    let id = shim.start_call_with_token("sdk", "greet", r#"{"name":"Bob"}"#, "7");
    assert_eq!(text_of(&shim.answer_to(&id.to_string())), "Hello, Bob!");
    let news = shim.take_notifications();
    assert!(news.iter().any(|note| note.contains(r#""progressToken":7"#)), "{news:?}");
    assert_eq!(daemon.suite("sdk")["children"][0]["revision"], revision);
}

#[test]
fn with_sessions() {
    greets(&Server::start(0, LEGACY, config()), "2025-11-25");
}

#[test]
fn without_sessions() {
    let config = config().with_legacy_session_mode(false);
    greets(&Server::start(0, LEGACY, config.clone()), "2025-11-25");
    greets(&Server::start(0, LEGACY, config.with_json_response(true)), "2025-11-25");
}

#[test]
fn in_the_modern_era() {
    greets(&Server::start(0, MODERN, config()), "2026-07-28");
    greets(&Server::start(0, MODERN, config().with_json_response(true)), "2026-07-28");
}

#[test]
fn a_server_that_restarts_gets_a_new_session() {
    for versions in [LEGACY, MODERN] {
        let server = Server::start(0, versions, config());
        let home = server.home();
        let daemon = home.daemon();
        let mut shim = home.shim();
        shim.call("sdk", "greet", r#"{"name":"Ada"}"#);
        let port = server.address.port();
        drop(server);
        let _server = Server::start(port, versions, config());
        let answer = shim.call("sdk", "greet", r#"{"name":"Eve"}"#);
        assert_eq!(text_of(&answer), "Hello, Eve!");
        assert_eq!(daemon.starts("sdk"), 1, "the session was renewed, not the child");
    }
}
