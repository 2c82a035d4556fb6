//! Describes suites, children, sessions and workspaces as JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_definitions::config::Show;
use switchboard_definitions::definition::Launch;
use switchboard_definitions::discover::host_files::ProjectHost;
use switchboard_definitions::time::utc;
use switchboard_definitions::trust::view::{mentioned, shown_url};
use switchboard_wire::visible::visible;

use crate::catalog::Catalog;
use crate::catalog::layer::Layer;
use crate::catalog::workspace::Workspace;
use crate::child::StderrLine;
use crate::child::value_resolver::NotLaunchable;
use crate::http::auth::Access;
use crate::pool::{Member, Pool, PoolError, PoolStatus};
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::Suite;
use crate::suite::summary::summary;

/// Maximum length of a pending definition's summary, in characters.
const MAX_SHOWN_COMMAND: usize = 600;

/// A workspace with its own suites, without the user's.
pub(super) fn workspace_state(
    daemon: &Daemon,
    workspace: &Arc<Workspace>,
    measured: impl Fn(&Catalog, &Suite) -> Value,
) -> Value {
    let catalog = workspace.catalog();
    let Some(own) = &catalog.own else { return Value::Null };
    // With scope `workspace`, the user's own servers have processes here, too.
    // So have those that are shown in some folders only.
    let runs_here = |suite: &Suite| {
        suite.pool.as_ref().is_some_and(|pool| pool.workspace().is_some())
            || (!suite.of_workspace && suite.settings.workspaces.is_some())
    };
    let is_own = |suite: &&Suite| {
        own.entries.iter().any(|entry| entry.definition.file == suite.definition.file) || runs_here(suite)
    };
    let here = |session: &&Arc<Session>| session.is_in(workspace);
    let own_problems = catalog.problems.iter().filter(|problem| problem.file.starts_with(&own.config.folder));
    let suites = catalog.suites.iter().filter(is_own);
    json!({
        "root": workspace.root,
        "sessions": daemon.sessions.all().iter().filter(here).count(),
        "generation": catalog.generation,
        "suites": suites.map(|suite| measured(&catalog, suite)).collect::<Vec<_>>(),
        "denied": denied(own),
        "problems": own_problems.map(ToString::to_string).collect::<Vec<_>>(),
    })
}

pub(in crate::http) fn suite_json(catalog: &Catalog, suite: &Suite, access: Access) -> Value {
    let state = match suite.pool.as_ref().map(|pool| pool.status()) {
        None if suite.is_held() => "held",
        None | Some(PoolStatus::Misconfigured) => "misconfigured",
        Some(PoolStatus::Held) => "held",
        Some(PoolStatus::Cold) => "cold",
        Some(PoolStatus::Starting) => "starting",
        Some(PoolStatus::Ready) => "ready",
        Some(PoolStatus::Failed) => "failed",
        Some(PoolStatus::CoolingDown) => "resting",
    };
    let mut body = json!({ "name": suite.name, "state": state });
    if access == Access::Names {
        return body;
    }
    body["child"] = suite.child_name().into();
    body["file"] = json!(suite.definition.file);
    body["line"] = json!(suite.definition.at.map(|(line, _)| line));
    if !suite.read_by.is_empty() {
        body["readBy"] = suite.read_by.iter().map(ProjectHost::id).collect();
    }
    if let Some(folders) = suite.settings.workspaces.as_ref().filter(|_| !suite.of_workspace) {
        body["workspaces"] = json!(folders);
    }
    if let Some(waiting) = suite.pending() {
        // A version that the user has not allowed yet: show what it would run.
        let mut text = mentioned(waiting);
        if suite.judged.wait() {
            text.push_str(&format!("; settings {}", visible(&suite.judged.changes().join(", "))));
        }
        body["waiting"] = json!(summary(&text, MAX_SHOWN_COMMAND));
    }
    if suite.is_held() {
        return body;
    }
    body["description"] = json!(suite.description(&suite.facts()));
    body["subtools"] = json!(subtools(suite));
    if suite.settings.show != Show::Suite {
        let (form, why_suite) = catalog.shown_form(suite);
        let setting = suite.settings.show.as_str();
        body["show"] = json!({ "setting": setting, "as": form.as_str(), "whySuite": why_suite });
    }
    if let Some(baseline) = &suite.baseline
        && let Some(drift) = baseline.drift().filter(|drift| !drift.is_none())
    {
        body["drift"] = drift.to_json(baseline.holds());
        body["drift"]["keepsSplit"] = suite.keeps_split().into();
    }
    if let Ok(Launch::Remote(remote)) = &suite.definition.launch {
        body["url"] = shown_url(&remote.url).into();
    }
    let pool = suite.pool.as_ref();
    body["lastError"] = match &suite.definition.launch {
        Err(why) => json!(why),
        Ok(_) => json!(pool.and_then(|pool| last_error(pool))),
    };
    if let Some(pool) = pool {
        let settings = pool.settings();
        body["lastErrorAgeMs"] =
            json!(pool.last_bad_ending().filter(|_| !body["lastError"].is_null()).map(|past| past.age_ms()));
        body["pool"] = json!({
            "scope": settings.scope.as_str(),
            "warm": settings.warm,
            "max": settings.max,
            "idleMs": u64::try_from(settings.idle.as_millis()).unwrap_or(u64::MAX),
            "starts": pool.start_count(),
            "isDescribed": pool.is_manifest_kept(),
        });
        if let Some(root) = pool.workspace() {
            body["pool"]["workspace"] = json!(root);
        }
        body["children"] = pool.members().iter().map(|member| member_state(member)).collect();
    }
    body
}

pub(in crate::http) fn last_error(pool: &Pool) -> Option<String> {
    pool.last_failure().map(|error| match error {
        PoolError::NotLaunchable(NotLaunchable::Misconfigured(why) | NotLaunchable::NoProgram(why)) => why,
        error => error.to_string(),
    })
}

/// The number of exposed subtools, if it is known without starting a child.
pub(in crate::http) fn subtools(suite: &Suite) -> Option<usize> {
    let list = suite.tools_if_known()?;
    Some(list.tools.iter().filter(|tool| suite.settings.expose.permits(&tool.name)).count())
}

fn member_state(child: &Member) -> Value {
    json!({
        // `null` for a remote child.
        "pid": child.process(),
        "ageMs": millis(child.started_at()),
        "idleMs": if child.is_idle() { millis(child.last_used()) } else { 0 },
        "inFlight": child.in_flight(),
        "ownedBySession": child.is_owned(),
        "era": child.era().as_str(),
        "revision": child.server_info().revision,
        "tools": child.known_tools().map(|list| list.tools.len()),
        "skippedLines": child.noise_count(),
        "stdoutLines": child.stderr().stdout_lines(),
    })
}

/// A line that a server wrote. `stream` is set if it came from stdout.
pub(in crate::http) fn line_json(line: &StderrLine) -> Value {
    let mut told = json!({ "at": utc(line.at), "text": line.text });
    if line.stdout {
        told["stream"] = "stdout".into();
    }
    told
}

/// The last lines that a server wrote, oldest first.
pub(in crate::http) fn last_lines_json(pool: &Pool, most: usize) -> Value {
    let lines = pool.stderr_lines(0);
    lines[lines.len().saturating_sub(most)..].iter().map(line_json).collect()
}

/// How its processes ended, oldest first.
pub(in crate::http) fn ends_json(pool: &Pool) -> Value {
    let ends = pool.history();
    let ends = ends.iter().map(
        |past| json!({ "at": utc(past.at), "ageMs": past.age_ms(), "what": past.what, "bad": past.bad }),
    );
    ends.collect()
}

pub(super) fn session_state(session: &Session) -> Value {
    let profile = session.caller.profile();
    let told: Value =
        profile.client_info.as_deref().and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default();
    json!({
        "client": profile.client_name(),
        "clientVersion": told["version"].as_str(),
        "revision": profile.revision,
        "modern": profile.is_modern,
        "workspace": session.folder,
        "overHttp": session.streams.is_some(),
        "ageMs": millis(session.opened),
        "inFlight": session.in_flight(),
        "droppedMessages": session.mail_dropped(),
    })
}

pub(super) fn denied(layer: &Layer) -> Vec<&str> {
    layer.denied.iter().map(|definition| definition.name.as_str()).collect()
}

pub(super) fn millis(since: tokio::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
