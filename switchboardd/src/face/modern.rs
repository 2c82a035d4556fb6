//! A request of a modern host: it stands for itself, and so does its answer.

use std::sync::{Arc, OnceLock};

use switchboard_wire::envelope::{Message, Outcome, quoted, splice, string};
use switchboard_wire::members::{Members, with};
use switchboard_wire::raw::Raw;

use super::{Face, Request, aggregate, links, listen, single};
use crate::board::Board;
use crate::caller::{Caller, Input, Takes};
use crate::child::Answer;
use crate::era::errors::{self, Mapped};
use crate::era::retry::{self, Retry};
use crate::era::seal::{Bound, Broken, Leads};
use crate::era::terms::Terms;
use crate::era::{self, Era, envelope, results};
use crate::error::Failure;
use crate::methods;
use crate::session::Session;
use crate::suite::{Asks, Said, outgoing};

/// One request with all that its answer needs.
struct Visit<'a> {
    board: &'a Arc<Board>,
    face: &'a Face,
    session: &'a Arc<Session>,
    /// The session's name; of those who have none, their workspace's.
    whose: String,
    request: Request<'a>,
    /// Made when a state is opened or closed.
    fingerprint: OnceLock<String>,
    takes: Takes,
}

pub(super) async fn answer(
    board: &Arc<Board>,
    face: &Face,
    session: &Arc<Session>,
    hears: &Arc<Caller>,
    request: Request<'_>,
    terms: Terms,
) -> Vec<u8> {
    let whose = whose(session);
    let visit =
        Visit { board, face, session, whose, request, fingerprint: OnceLock::new(), takes: terms.takes };
    let said = visit.act(hears, terms).await;
    request.went(&said);
    let outcome = said.and_then(|said| visit.finish(said));
    outcome.unwrap_or_else(|failure| {
        request.note.iter().for_each(|note| note.failed(failure.kind(), &failure));
        tracing::debug!(target: "face", method = request.method, kind = failure.kind(), "{failure}");
        failure.answer(Era::Modern, request.method, request.id.get())
    })
}

impl Visit<'_> {
    async fn act(&self, hears: &Arc<Caller>, terms: Terms) -> Result<Said, Failure> {
        let Self { board, face, session, request, .. } = self;
        let catalog = session.workspace().catalog();
        let owner = session.whose(terms.client.as_deref());
        match request.method {
            methods::INITIALIZE
            | methods::PING
            | methods::SET_LEVEL
            | methods::SUBSCRIBE
            | methods::UNSUBSCRIBE => {
                return Err(Failure::UnknownMethod { method: request.method.to_owned() });
            }
            methods::LISTEN => {
                let own = hears.mailbox().filter(|_| session.id.is_empty());
                let hears = own.map_or_else(|| hears.clone(), |mailbox| owner.on_stream(mailbox));
                return listen::answer(board, face, session, &hears, *request).await;
            }
            _ => {}
        }
        let mut pinned = None;
        let mut params = None;
        if let Some(Retry { responses, state: Some(state) }) = Retry::of(request.params)? {
            match board.parking.open(&state, self.bound())? {
                Leads::ToParked(name) => {
                    let mut conversation = board.parking.take(&name).ok_or(Broken::Expired)?;
                    let token = request.params.and_then(Members::of);
                    let token = token.and_then(|params| outgoing::progress_token(&params));
                    conversation.resume(hears, token.map(Raw::get));
                    conversation.hear(&responses);
                    let child = conversation.child.clone();
                    catalog.child(&child).iter().for_each(|suite| request.is_for(suite));
                    let said = conversation.go_on().await?;
                    let is_all = **face == Face::Aggregate;
                    return Ok(if is_all { links::renamed(&catalog, &child, said) } else { said });
                }
                Leads::ToChild { pid, state } => {
                    pinned = Some(pid);
                    params =
                        request.params.map(|params| retry::with_state(params, state.as_deref()).into_bytes());
                }
            }
        }
        let current = params.as_deref().and_then(Raw::parse).or(request.params);
        let without = match face {
            Face::Aggregate => current.and_then(envelope::without_extensions),
            Face::Child(_) => None,
        };
        let current = without.as_deref().and_then(Raw::parse).or(current);
        let caller = Caller::once(&owner, hears, terms, pinned);
        let request = Request { params: current, ..*request };
        match face {
            Face::Aggregate if request.method == methods::DISCOVER => {
                Ok(Said::Ours(aggregate::discover(&catalog)))
            }
            Face::Child(name) if request.method == methods::DISCOVER => {
                single::discover(&catalog, name, &caller).await
            }
            Face::Aggregate => aggregate::answer(board, session, &caller, &catalog, request).await,
            Face::Child(name) => single::answer(&catalog, name, &caller, request).await,
        }
    }

    /// What a `requestState` is good for.
    fn bound(&self) -> Bound<'_> {
        let face = self.face.child().unwrap_or_default();
        let (session, method) = (&*self.whose, self.request.method);
        let fingerprint = self.fingerprint.get_or_init(|| retry::fingerprint(self.request.params));
        Bound { session, face, method, fingerprint }
    }

    /// The whole answer.
    fn finish(&self, said: Said) -> Result<Vec<u8>, Failure> {
        let id = self.request.id.get();
        let result = match said {
            Said::Child(answer) if answer.era == Era::Modern => return Ok(answer.for_host(id)),
            Said::Child(answer) => match Message::parse(&answer.body) {
                Ok(Message::Response { outcome: Outcome::Result(result), .. }) => self.modern(result),
                Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
                    match errors::for_modern(error) {
                        Mapped::AsItIs => return Ok(answer.for_host(id)),
                        Mapped::Error(error) => return Ok(fault(id, &error)),
                        Mapped::Asks(result) if self.takes.elicitation_url => self.ours(&result),
                        Mapped::Asks(_) => {
                            return Err(Failure::LacksCapability {
                                required: r#"{"elicitation":{"url":{}}}"#,
                            });
                        }
                    }
                }
                _ => return Ok(answer.for_host(id)),
            },
            Said::Ours(result) => self.ours(&result),
            Said::Fault(error) => return Ok(fault(id, &error)),
            Said::Asks(asks) => match *asks {
                Asks::Child { answer, pid } => return Ok(self.wrapped(&answer, pid)),
                Asks::Parked { conversation, inputs } => {
                    let state =
                        self.board.parking.park(conversation, self.bound()).ok_or(Failure::TooManyParked)?;
                    self.ours(&input_required(&inputs, &state))
                }
            },
        };
        Ok(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes())
    }

    fn modern(&self, result: Raw<'_>) -> String {
        results::for_modern(result, self.request.method, &self.server())
    }

    fn ours(&self, result: &str) -> String {
        Raw::parse(result.as_bytes()).map_or_else(|| result.to_owned(), |result| self.modern(result))
    }

    /// Who answers.
    fn server(&self) -> String {
        let catalog = self.session.workspace().catalog();
        let hello = self.face.child().and_then(|name| catalog.child(name)).and_then(|suite| suite.hello());
        hello.map_or_else(|| era::server().to_string(), |hello| hello.server.get().to_owned())
    }

    /// A modern child's question, with its state in ours.
    fn wrapped(&self, answer: &Answer, pid: u32) -> Vec<u8> {
        let id = self.request.id.get();
        let Ok(Message::Response { outcome: Outcome::Result(result), .. }) = Message::parse(&answer.body)
        else {
            return answer.for_host(id);
        };
        let given = Members::of(result).and_then(|result| result.get("requestState"));
        let inner = given.and_then(string).map(Into::into);
        let state = quoted(&self.board.parking.wrap(pid, inner, self.bound()));
        let result = match given {
            Some(given) => {
                let whole = result.get().as_bytes();
                let place = switchboard_wire::envelope::place_of(whole, given.get());
                String::from_utf8_lossy(&splice(whole, place, state.as_bytes())).into_owned()
            }
            None => with(result.get(), &format!(r#""requestState":{state}"#)),
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
    }
}

fn whose(session: &Session) -> String {
    let workspace = session.workspace();
    match (&*session.id, &workspace.root) {
        ("", Some(root)) => format!("in {}", root.display()),
        (id, _) => id.to_owned(),
    }
}

fn input_required(inputs: &[Input], state: &str) -> String {
    let all: Vec<String> =
        inputs.iter().map(|input| format!("{}:{}", quoted(&input.key), input.entry)).collect();
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
        all.join(","),
        quoted(state)
    )
}

fn fault(id: &str, error: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}
