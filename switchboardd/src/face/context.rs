//! A host's request: who makes it, for what, and through which entry point.

use std::sync::Arc;

use switchboard_mcp::era::request_meta::RequestMeta;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::era::{InvalidRequest, ProtocolEra, request_meta};
use switchboard_wire::raw::Raw;

use super::Face;
use crate::caller::{Caller, client_name};
use crate::catalog::Catalog;
use crate::observe::metrics::series::EntryPoint;
use crate::observe::metrics::{OperationNotes, ReplyKind};
use crate::observe::telemetry::trace::SpanContext;
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::failure::Failure;
use crate::suite::{Suite, SuiteReply};

/// Who makes a request, what they are shown, and through which entry point it came.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext<'a> {
    pub daemon: &'a Arc<Daemon>,
    pub session: &'a Arc<Session>,
    pub face: &'a Face,
    /// The caller of the session, or of this one call.
    pub caller: &'a Arc<Caller>,
    pub via: EntryPoint,
    /// The parent span from its HTTP headers; one in `_meta` takes precedence.
    pub parent: Option<SpanContext>,
}

impl RequestContext<'_> {
    /// What the host sees. `client`: the `clientInfo` of a modern request.
    pub(super) fn catalog(self, client: Option<&str>) -> Arc<Catalog> {
        match self.face.child() {
            Some(_) => self.session.workspace().catalog(),
            None => self
                .session
                .catalog_for(|| client.and_then(client_name).or_else(|| self.caller.profile().client_name())),
        }
    }
}

/// A request as received.
#[derive(Debug, Clone, Copy)]
pub struct IncomingRequest<'a> {
    pub id: Raw<'a>,
    pub method: &'a str,
    pub params: Option<Raw<'a>>,
}

impl IncomingRequest<'_> {
    /// Its era. A request with invalid modern metadata counts as modern.
    pub fn era(&self) -> ProtocolEra {
        era_of(self.method, self.params)
    }
}

/// The era of a request with this method and these params, valid or not.
pub fn era_of(method: &str, params: Option<Raw<'_>>) -> ProtocolEra {
    claimed_era(&request_meta::parse(method, &RequestParams::read(params)))
}

/// The era that a request claims, valid or not.
pub(super) fn claimed_era(claim: &Result<Option<RequestMeta>, InvalidRequest>) -> ProtocolEra {
    match claim {
        Ok(None) => ProtocolEra::Legacy,
        Ok(Some(_)) | Err(_) => ProtocolEra::Modern,
    }
}

/// A request that is being answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostRequest<'a> {
    pub(super) id: Raw<'a>,
    pub(super) method: &'a str,
    pub(super) params: &'a RequestParams<'a>,
    /// Records the outcome, for metrics and traces.
    pub(super) notes: Option<&'a OperationNotes>,
}

impl HostRequest<'_> {
    pub(super) fn set_suite(&self, suite: &Suite) {
        self.notes.iter().for_each(|note| note.suite(&suite.metrics));
    }

    /// Records the outcome in its notes.
    pub(super) fn record_outcome(&self, said: &Result<SuiteReply, Failure>) {
        let Some(note) = self.notes else { return };
        match said {
            Ok(said) => {
                note.record_answer(said.error());
                note.record_user_time(said.user_time());
                if said.kind() != ReplyKind::Answer {
                    note.record_reply(said.kind());
                }
            }
            Err(failure) => note.record_failure(failure.kind(), failure),
        }
    }
}
