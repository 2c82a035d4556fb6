//! Answers the requests of modern hosts, each of which is self-contained.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use switchboard_mcp::client_capabilities::ClientCapabilities;
use switchboard_mcp::era::errors::{self, MappedError};
use switchboard_mcp::era::request_meta::RequestMeta;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::era::request_state::{BadState, StateBinding};
use switchboard_mcp::era::retry::{self, Retry};
use switchboard_mcp::era::{self, ProtocolEra, envelope, results};
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, Outcome, quoted, splice, string};
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use super::{Face, HostRequest, RequestContext, aggregate, links, listen, single};
use crate::caller::{Caller, InputEntry, SentAs};
use crate::catalog::Catalog;
use crate::child::ChildResponse;
use crate::session::Session;
use crate::session::suspended_calls::UsedState;
use crate::suite::failure::Failure;
use crate::suite::{InputNeeded, SuiteReply};

struct ModernRequest<'a> {
    context: RequestContext<'a>,
    catalog: &'a Catalog,
    /// The session's id; for sessionless requests, a name for their workspace.
    state_owner: String,
    request: HostRequest<'a>,
    /// Computed when a request state is verified or signed.
    fingerprint: OnceLock<String>,
    client_capabilities: ClientCapabilities,
}

pub(super) async fn answer(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
    meta: RequestMeta,
) -> Vec<u8> {
    let visit = ModernRequest {
        context,
        catalog,
        state_owner: state_owner(context.session),
        request,
        fingerprint: OnceLock::new(),
        client_capabilities: meta.client_capabilities,
    };
    let said = visit.dispatch(meta).await;
    request.record_outcome(&said);
    let outcome = said.and_then(|said| visit.finish(said));
    outcome.unwrap_or_else(|failure| {
        request.notes.iter().for_each(|note| note.record_failure(failure.kind(), &failure));
        tracing::debug!(target: "face", method = request.method, kind = failure.kind().as_str(), "{failure}");
        failure.answer(ProtocolEra::Modern, request.method, request.id.get())
    })
}

impl ModernRequest<'_> {
    async fn dispatch(&self, meta: RequestMeta) -> Result<SuiteReply, Failure> {
        let Self { context, catalog, request, .. } = self;
        let RequestContext { daemon, session, face, caller: listener, .. } = *context;
        let owner = session.request_owner(meta.client.as_deref());
        match request.method {
            methods::INITIALIZE
            | methods::PING
            | methods::SET_LEVEL
            | methods::SUBSCRIBE
            | methods::UNSUBSCRIBE => {
                return Err(Failure::UnknownMethod { method: request.method.to_owned() });
            }
            methods::LISTEN => {
                let own = listener.mailbox().filter(|_| session.id.is_empty());
                let listener = own.map_or_else(|| listener.clone(), |mailbox| owner.on_stream(mailbox));
                let context = RequestContext { caller: &listener, ..*context };
                return listen::answer(context, catalog, *request).await;
            }
            _ => {}
        }
        let (mut before, mut params) = (None, None);
        if let Some(Retry { responses, state: Some(state) }) = Retry::of(request.params.raw)? {
            request.notes.iter().for_each(|notes| notes.record_retry());
            match daemon.suspended_calls.use_state(&state, self.state_binding())? {
                UsedState::SuspendedCall(name) => {
                    let mut call = daemon.suspended_calls.take(&name).ok_or(BadState::Expired)?;
                    call.resume(listener, request.params.progress_token().map(Raw::get));
                    call.supply_inputs(&responses);
                    let child = call.child.clone();
                    if let Some(suite) = catalog.child(&child) {
                        request.set_suite(suite);
                        request.notes.iter().for_each(|notes| match face {
                            Face::Aggregate => match self.own_tool() {
                                Some(own) => suite.note_tool_call(&own, request.params, notes),
                                None => suite.note_call(request.params, notes),
                            },
                            Face::Child(_) => suite.note_own_call(request.params, notes),
                        });
                    }
                    let said = call.run_until_input().await?;
                    if let SuiteReply::Confirmed(key) = said {
                        return self.run_confirmed(owner, meta, key).await;
                    }
                    let is_all = *face == Face::Aggregate;
                    return Ok(if is_all { links::rewrite_uris(catalog, &child, said) } else { said });
                }
                UsedState::Child { sent_as, state } => {
                    before = Some(sent_as);
                    let with_state = |params| retry::with_state(params, state.as_deref()).into_bytes();
                    params = request.params.raw.map(with_state);
                }
            }
        }
        let current = params.as_deref().and_then(Raw::parse).or(request.params.raw);
        let caller = Caller::stateless(&owner, listener, meta, before);
        self.run(&caller, current).await
    }

    /// Runs a request to which the user has said yes under this key, without the answer, which is not for a child.
    async fn run_confirmed(
        &self,
        owner: Arc<Caller>,
        meta: RequestMeta,
        key: Box<str>,
    ) -> Result<SuiteReply, Failure> {
        let caller = Caller::stateless(&owner, self.context.caller, meta, None);
        if let Some(request) = caller.as_stateless() {
            request.set_confirmed(key);
        }
        let is_answer = |key: &str| matches!(key, "inputResponses" | "requestState");
        let params = self.request.params.raw.map(|params| remove_members(params, is_answer));
        self.run(&caller, params.as_deref().and_then(|params| Raw::parse(params.as_bytes()))).await
    }

    /// Runs the request for this caller, with these params.
    async fn run(&self, caller: &Arc<Caller>, current: Option<Raw<'_>>) -> Result<SuiteReply, Failure> {
        let Self { context, catalog, request, .. } = self;
        let face = context.face;
        let original = request.params.raw.map(Raw::get);
        let without = match face {
            Face::Aggregate => current.and_then(envelope::without_extensions),
            Face::Child(_) => None,
        };
        let current = without.as_deref().and_then(Raw::parse).or(current);
        let is_changed = current.map(|params| params.get().as_ptr()) != original.map(str::as_ptr);
        let changed = is_changed.then(|| RequestParams::read(current));
        let request = HostRequest { params: changed.as_ref().unwrap_or(request.params), ..*request };
        match face {
            Face::Aggregate if request.method == methods::DISCOVER => {
                Ok(SuiteReply::Own(aggregate::discover(catalog)))
            }
            Face::Child(name) if request.method == methods::DISCOVER => {
                single::discover(catalog, name, caller).await
            }
            Face::Aggregate => {
                let context = RequestContext { caller, ..*context };
                aggregate::answer(context, catalog, request).await
            }
            Face::Child(name) => single::answer(catalog, name, caller, request).await,
        }
    }

    /// The server's own tool that the request calls, if it calls no suite.
    fn own_tool(&self) -> Option<Box<str>> {
        let name = self.request.params.members.text("name")?;
        self.catalog.tool(&name, self.context.session.shown_tools().as_deref())?.own
    }

    /// What a `requestState` is bound to.
    fn state_binding(&self) -> StateBinding<'_> {
        let face = self.context.face.child().unwrap_or_default();
        let (session, method) = (&*self.state_owner, self.request.method);
        let fingerprint = self.fingerprint.get_or_init(|| retry::fingerprint(self.request.params.raw));
        StateBinding { session, face, method, fingerprint }
    }

    /// The whole response message.
    fn finish(&self, said: SuiteReply) -> Result<Vec<u8>, Failure> {
        let id = self.request.id.get();
        let result = match said {
            SuiteReply::Child(answer) if answer.era == ProtocolEra::Modern => return Ok(answer.for_host(id)),
            // The body was checked when it arrived.
            SuiteReply::Child(answer) => match Message::peek(&answer.body) {
                Ok(Message::Response { outcome: Outcome::Result(result), .. }) => self.modern(result),
                Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
                    match errors::for_modern(error) {
                        MappedError::AsItIs => return Ok(answer.for_host(id)),
                        MappedError::Error(error) => return Ok(rpc::error(id, &error)),
                        MappedError::NeedsInput(result) if self.client_capabilities.elicitation_url => {
                            self.ours(&result)
                        }
                        MappedError::NeedsInput(_) => {
                            return Err(Failure::LacksCapability {
                                required: r#"{"elicitation":{"url":{}}}"#,
                            });
                        }
                    }
                }
                _ => return Ok(answer.for_host(id)),
            },
            SuiteReply::Own(result) | SuiteReply::Refused { result, .. } => self.ours(&result),
            SuiteReply::Error(error) => return Ok(rpc::error(id, &error)),
            SuiteReply::Confirmed(_) => return Err(Failure::Panicked),
            SuiteReply::NeedsInput(asks) => match *asks {
                InputNeeded::Child { answer, sent_as } => return Ok(self.wrapped(&answer, sent_as)),
                InputNeeded::Suspended { call, inputs } => {
                    let state = self
                        .context
                        .daemon
                        .suspended_calls
                        .suspend(call, self.state_binding())
                        .ok_or(Failure::TooManySuspended)?;
                    self.ours(&input_required(&inputs, &state))
                }
            },
        };
        Ok(rpc::result(id, &result))
    }

    fn modern(&self, result: Raw<'_>) -> String {
        results::for_modern(result, self.request.method, &self.server())
    }

    fn ours(&self, result: &str) -> String {
        Raw::parse(result.as_bytes()).map_or_else(|| result.to_owned(), |result| self.modern(result))
    }

    /// The `serverInfo` of the server that answers.
    fn server(&self) -> Cow<'static, str> {
        let server_info = self
            .context
            .face
            .child()
            .and_then(|name| self.catalog.child(name))
            .and_then(|suite| suite.server_info());
        server_info
            .map_or(Cow::Borrowed(era::SERVER), |server_info| server_info.server.get().to_owned().into())
    }

    /// A modern child's question, with its request state sealed in ours.
    fn wrapped(&self, answer: &ChildResponse, sent_as: SentAs) -> Vec<u8> {
        let id = self.request.id.get();
        let Ok(Message::Response { outcome: Outcome::Result(result), .. }) = Message::parse(&answer.body)
        else {
            return answer.for_host(id);
        };
        let given = Members::of(result).and_then(|result| result.get("requestState"));
        let inner = given.and_then(string).map(Into::into);
        let state = quoted(&self.context.daemon.suspended_calls.seal_child_state(
            sent_as,
            inner,
            self.state_binding(),
        ));
        let result = match given {
            Some(given) => {
                let whole = result.get().as_bytes();
                let place = switchboard_wire::envelope::range_of(whole, given.get());
                String::from_utf8_lossy(&splice(whole, place, state.as_bytes())).into_owned()
            }
            None => insert_members(result.get(), &format!(r#""requestState":{state}"#)),
        };
        rpc::result(id, &result)
    }
}

fn state_owner(session: &Session) -> String {
    let workspace = session.workspace();
    match (&*session.id, &workspace.root) {
        ("", Some(root)) => format!("in {}", root.display()),
        (id, _) => id.to_owned(),
    }
}

fn input_required(inputs: &[InputEntry], state: &str) -> String {
    let all: Vec<String> =
        inputs.iter().map(|input| format!("{}:{}", quoted(&input.key), input.entry)).collect();
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
        all.join(","),
        quoted(state)
    )
}
