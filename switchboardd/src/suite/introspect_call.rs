//! The action `introspect`: which list is shown to whom, and on which thread its text is made.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_definitions::config::Mode;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::members::Members;
use tokio::time::Instant;

use super::introspect_options::IntrospectOptions;
use super::reply::text_result;
use super::split::Marks;
use super::{CallContext, Suite, SuiteReply, drift, introspect, text_member, tool_error};
use crate::caller::Caller;
use crate::child::ToolList;
use crate::savings::recorder::Fingerprint;
use crate::suite::failure::Failure;

impl Suite {
    pub(super) async fn introspect(
        &self,
        call: CallContext<'_>,
        arguments: &Members<'_>,
    ) -> Result<SuiteReply, Failure> {
        let list = self.known_tools(call).await?;
        let caller = call.caller;
        if let Some(subtool) = call.tool {
            let list = match list.find(subtool) {
                Some(_) => list,
                None => {
                    let lease = self.lease(CallContext { asked: Instant::now(), ..call }).await?;
                    let renewed = lease.renew_tools(self.limits).await;
                    renewed.map_err(|error| self.failed(Some(subtool), error))?
                }
            };
            return Ok(match list.find(subtool) {
                Some(_) if !self.settings.expose.permits(subtool) => self.not_allowed(subtool),
                Some(_) if self.refuses(&list, subtool).await => return Err(self.held_tool(subtool)),
                Some(tool) => {
                    let marks = self.marks_of(self.compared(&list).await, call.part, call.instead);
                    let text = if tool.is_large() {
                        let (list, subtool) = (list.clone(), subtool.to_owned());
                        let own = self.introspect_options(&marks);
                        let (mode, chars, bytes) = (own.mode, own.summary_max_chars, own.max_bytes);
                        let one = move || {
                            let options = IntrospectOptions::new(mode, chars, bytes, &marks);
                            list.find(&subtool).map(|tool| introspect::single(tool, options))
                        };
                        run_blocking(one).await.unwrap_or_default()
                    } else {
                        introspect::single(tool, self.introspect_options(&marks))
                    };
                    self.fetched(caller, &text)
                }
                None => {
                    let drift = self.held_drift(&list).await;
                    let list = drift::without_held_async(&list, drift).await;
                    self.unknown_subtool(subtool, &list).await
                }
            });
        }
        let query = match text_member(arguments, "query") {
            Ok(query) => query.filter(|query| !query.trim().is_empty()),
            Err(sentence) => return Ok(tool_error(&sentence)),
        };
        let verbosity = arguments.get("args").and_then(Members::of).and_then(|args| args.text("verbosity"));
        let wants_schemas = verbosity.as_deref() == Some("full");
        let mode = if wants_schemas && self.mode != Mode::Redacted { Mode::Full } else { self.mode };
        let drift = self.held_drift(&list).await;
        let shown = drift::without_held_async(&list, drift).await;
        let marks = self.marks_of(self.compared(&list).await, call.part, call.instead);
        let options = IntrospectOptions { mode, wants_schemas, ..self.introspect_options(&marks) };
        let text = if shown.is_large() {
            let IntrospectOptions { summary_max_chars, max_bytes, .. } = options;
            let (list, marks, expose) = (shown.clone(), marks.clone(), self.settings.expose.clone());
            let query = query.map(Cow::into_owned);
            run_blocking(move || {
                let (query, marks) = (query.as_deref(), Some(&marks));
                let options =
                    IntrospectOptions { mode, summary_max_chars, max_bytes, query, wants_schemas, marks };
                introspect::text(&list, &expose, options)
            })
            .await
        } else {
            let options = IntrospectOptions { query: query.as_deref(), ..options };
            introspect::text(&shown, &self.settings.expose, options)
        };
        Ok(self.fetched(caller, &self.with_held_hint(text, &list, &shown)))
    }

    /// The text that `introspect` returns without a query.
    pub fn introspection(&self, list: &Arc<ToolList>) -> String {
        let marks = self.marks_of(self.acceptance(Some(list)), self.current_part(), None);
        let list = drift::without_held(list, self.held_if_known(list).as_deref());
        introspect::text(&list, &self.settings.expose, self.introspect_options(&marks))
    }

    pub(super) fn introspect_options<'m>(&self, marks: &'m Marks) -> IntrospectOptions<'m> {
        IntrospectOptions::new(self.mode, self.summary_max_chars, self.max_bytes, marks)
    }

    /// A text that goes into the model's context, recorded for the savings report unless the caller is
    /// anonymous.
    fn fetched(&self, caller: &Arc<Caller>, text: &str) -> SuiteReply {
        if let Some(pool) = &self.pool
            && let Some(mut usage) = caller.usage()
        {
            let mark = Fingerprint::of(text);
            usage.record_fetch(mark);
            drop(usage);
            pool.savings_recorder().record_fetched(pool.fingerprint(), mark, text);
        }
        SuiteReply::Own(text_result(text, false))
    }
}
