//! The shim's own routes: open a session, poll its mailbox.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::value::RawValue;
use switchboard_wire::envelope::Message;
use switchboard_wire::hop::{HOP, MailboxPoll, OpenSession, SESSION_HEADER, SessionOpened};
use tokio::time::Instant;

use super::connection::AcceptedConnection;
use super::errors::{HttpError, json_response};
use super::request_body::read_body;
use super::request_context::context;
use crate::caller::mailbox::MessageBatch;
use crate::catalog::ShownTools;
use crate::changes::list_changes;
use crate::face::{self, Face, IncomingRequest};
use crate::session::Session;
use crate::state::{Daemon, Phase};

/// Longest wait of a poll.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(super) async fn open(
    State(daemon): State<Arc<Daemon>>,
    Extension(connection): Extension<Arc<AcceptedConnection>>,
    request: Request,
) -> Result<Response, HttpError> {
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Err(HttpError::Draining(draining));
    }
    let body = read_body(request.into_body()).await?;
    let open =
        OpenSession::parse(&body).ok_or_else(|| HttpError::BadRequest("not a session to open".to_owned()))?;
    let Some(hop) = HOP.newest_common(open.hop) else {
        let span = |span: switchboard_wire::hop::VersionRange| format!("{}–{}", span.min, span.max);
        return Err(HttpError::HopMismatch { ours: span(HOP), theirs: span(open.hop) });
    };
    let folder: Option<PathBuf> = open.workspace.as_deref().map(Into::into);
    let (workspace, later) = daemon.workspace_loader.resolve_workspace(folder.as_deref()).await;
    let face = open.child.map_or(Face::Aggregate, Face::Child);
    let session = Session::open(&daemon.run_id, &workspace, folder, face);
    if let Some(later) = later {
        tokio::spawn(daemon.workspace_loader.clone().attach_workspace(session.clone(), later));
    }
    tracing::debug!(target: "session", session = &session.id[..8], project = ?workspace.root, shim = open.version, "opened");
    if let Some(token) = &open.shown {
        session.set_shown_tools(Arc::new(ShownTools::of_token(token)));
    }
    for message in &open.handshake {
        replay(&daemon, &session, message);
    }
    if !open.handshake.is_empty() {
        // The session comes from another daemon, which may have shown the host different lists.
        list_changes::notify_all_lists_changed(&session);
    }
    if let Some(shim) = connection.peer_pid() {
        session.set_shim_pid(shim);
    }
    daemon.sessions.insert(&session);
    daemon.services.status_changed.notify();
    let _ = connection.attach_session(&session);
    let opened =
        SessionOpened { session: session.id.to_string(), boot: daemon.run_id.name().to_owned(), hop };
    Ok(json_response(StatusCode::OK, opened.json()))
}

/// Replays the host's handshake with an earlier daemon; the answers are discarded. It does not wait for
/// children: one that hangs would cut the host off from all others.
fn replay(daemon: &Arc<Daemon>, session: &Arc<Session>, message: &RawValue) {
    let body = message.get().as_bytes();
    match Message::parse(body) {
        Ok(Message::Request { id, method, params }) => {
            let method = method.name();
            let request = IncomingRequest { id, method: &method, params };
            if face::replay_request(daemon, session, request) {
                return;
            }
            let (daemon, session, body) = (daemon.clone(), session.clone(), body.to_vec());
            tokio::spawn(async move {
                if let Ok(Message::Request { id, method, params }) = Message::parse(&body) {
                    let method = method.name();
                    let request = IncomingRequest { id, method: &method, params };
                    let context = context(&daemon, &session.face, &session, None);
                    face::repeat_request(context, request).await;
                }
            });
        }
        Ok(Message::Notification { method, params }) => {
            face::on_notification(daemon, session, &method.name(), params);
            face::host_root::ask(daemon, session, &method.name());
        }
        Ok(Message::Response { .. }) | Err(_) => {}
    }
}

pub(super) async fn poll(
    State(daemon): State<Arc<Daemon>>,
    Extension(connection): Extension<Arc<AcceptedConnection>>,
    request: Request,
) -> Result<Response, HttpError> {
    let id = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
    let session = id
        .and_then(|id| daemon.sessions.get(id))
        .filter(|session| session.is_shims)
        .ok_or(HttpError::UnknownSession)?;
    // The mailbox connection is admitted even above the session's limit.
    let _ = connection.attach_session(&session);
    let body = read_body(request.into_body()).await?;
    let poll =
        MailboxPoll::parse(&body).ok_or_else(|| HttpError::BadRequest("not a mailbox poll".to_owned()))?;
    let mailbox = session.caller.mailbox().ok_or(HttpError::UnknownSession)?;
    let until = Instant::now() + Duration::from_millis(poll.wait_ms).min(MAX_WAIT);
    let mut phase = daemon.phase();
    let batch = loop {
        let arrival = mailbox.wait_for_message();
        if let Some(batch) = mailbox.take(poll.after) {
            break batch;
        }
        let nothing = MessageBatch { messages: Vec::new(), next: poll.after };
        // The start of draining interrupts one poll per session; later polls wait normally.
        let leaving = match *phase.borrow_and_update() {
            Phase::Serving => false,
            Phase::Draining(_) => {
                let first = session.tell_draining();
                if !first {
                    daemon.disconnects.ack_drain(&session);
                }
                first
            }
            Phase::Leaving(_) => true,
        };
        if leaving {
            break nothing;
        }
        tokio::select! {
            () = arrival => {}
            _ = phase.changed() => {}
            () = tokio::time::sleep_until(until) => break nothing,
        }
    };
    Ok(json_response(StatusCode::OK, written(&batch, *daemon.phase().borrow())))
}

fn written(batch: &MessageBatch, phase: Phase) -> Vec<u8> {
    let size: usize = batch.messages.iter().map(|message| message.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 64);
    out.extend_from_slice(br#"{"messages":["#);
    for (at, message) in batch.messages.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message);
    }
    out.extend_from_slice(format!(r#"],"next":{}"#, batch.next).as_bytes());
    if let Some(draining) = phase.draining() {
        out.extend_from_slice(format!(r#","draining":"{}""#, draining.as_str()).as_bytes());
    }
    out.push(b'}');
    out
}
