//! Turns the snapshot and the recorded totals into the report.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_definitions::time::utc;

use super::advice::{TokenBalance, signed};
use super::headline::headline;
use super::snapshot::{
    PoolUsage, SavingsSnapshot, SessionRow, SuiteRow, SuiteTools, ToolsKnown, WorkspaceView,
};
use crate::savings::recorder::{Fingerprint, SavingsFile, SuiteTotals};
use crate::savings::tokens::TOKENIZER;

/// A caveat for readers of the report.
const NOTE: &str = "counted with OpenAI's o200k_base; Claude's tokenizer is not public, and its counts differ by some percent";

/// Tokens that a suite takes in a model's context.
struct SuiteTokens {
    listed: u64,
    shown: u64,
    introspection: u64,
}

pub(super) fn report(all: &SavingsSnapshot, kept: &SavingsFile, peak: i64, problem: Option<&str>) -> Value {
    let aggregate = kept.totals(Fingerprint::AGGREGATE);
    let mut net = 0;
    let mut past = SuiteTotals::default();
    let mut suites = Vec::new();
    // Two definitions may share a pool.
    let mut pools = HashSet::new();
    for row in &all.suites {
        let (told, own_net) = suite(all, kept, row);
        net += own_net;
        if let Some(pool_usage) =
            row.pool_usage.as_ref().filter(|pool_usage| pools.insert(pool_usage.fingerprint))
        {
            past += &kept.totals(pool_usage.fingerprint);
        }
        suites.push(told);
    }
    let instructions = kept.tokens(all.views[0].instructions);
    let overhead = signed(aggregate.sessions) * signed(instructions.unwrap_or(0));
    let (per_session, processes, memory) =
        (view(all, kept, &all.views[0]), processes(all, peak), memory(all));
    let workspaces = all.views[1..].iter().filter(|one| one.hosts.is_none());
    json!({
        "headline": headline(&per_session, &processes, &memory),
        "tokenizer": { "name": TOKENIZER, "note": NOTE },
        "since": utc(UNIX_EPOCH + Duration::from_secs(kept.since)),
        "problem": problem,
        "perSession": per_session,
        "workspaces": workspaces.map(|one| view(all, kept, one)).collect::<Vec<_>>(),
        "suites": suites,
        "sessions": all.sessions.iter().map(|one| session(all, kept, one)).collect::<Vec<_>>(),
        "tokens": {
            "sessions": aggregate.sessions,
            "introspections": past.introspections,
            "introspected": past.introspected,
            "uncounted": past.uncounted,
            "instructions": overhead,
            "net": net - overhead,
        },
        "processes": processes,
        "memory": memory,
        "coldStarts": cold(&past),
    })
}

fn suite_tokens(kept: &SavingsFile, row: &SuiteRow, suite_tools: &SuiteTools) -> Option<SuiteTokens> {
    Some(SuiteTokens {
        listed: suite_tools.listed.iter().map(|mark| kept.tokens(*mark)).sum::<Option<u64>>()?,
        shown: kept.tokens(row.shown)?,
        introspection: kept.tokens(suite_tools.introspection)?,
    })
}

/// A suite's figures, and its net saving in tokens.
fn suite(all: &SavingsSnapshot, kept: &SavingsFile, row: &SuiteRow) -> (Value, i64) {
    let mut told = json!({
        "name": row.name,
        "child": row.child,
        "workspace": row.workspace,
        "shownAs": if row.is_suite { "suite" } else { "tools" },
        "known": matches!(row.known, ToolsKnown::Yes(_)),
        "why": match row.known {
            ToolsKnown::Yes(_) => None,
            ToolsKnown::No => Some("it has not run yet"),
            ToolsKnown::Held => Some("it is held"),
            ToolsKnown::Misconfigured => Some("it cannot be started"),
        },
    });
    let Some(pool_usage) = &row.pool_usage else { return (told, 0) };
    let past = kept.totals(pool_usage.fingerprint);
    told["sessions"] = past.sessions.into();
    told["introspections"] = past.introspections.into();
    told["introspected"] = past.introspected.into();
    told["uncounted"] = past.uncounted.into();
    told["coldStarts"] = cold(&past);
    told["startMs"] = json!(pool_usage.start_ms);
    told["children"] = pool_usage.children.into();
    told["sessionsNow"] = users(all, pool_usage).into();
    told["sessionsShown"] = viewers(all, pool_usage).into();
    told["childrenAvoided"] = avoided(all, pool_usage).into();
    told["memoryBytes"] = json!(pool_usage.memory);
    told["memoryAvoidedBytes"] = json!(memory_avoided(all, pool_usage));
    let ToolsKnown::Yes(suite_tools) = &row.known else { return (told, 0) };
    told["tools"] = suite_tools.tools.into();
    told["hiddenTools"] = suite_tools.hidden.into();
    let Some(taken) = suite_tokens(kept, row, suite_tools) else {
        told["known"] = false.into();
        told["why"] = "it could not be counted".into();
        return (told, 0);
    };
    let balance = TokenBalance {
        tools: suite_tools.tools,
        listed: taken.listed,
        shown: taken.shown,
        introspection: taken.introspection,
        sessions: past.sessions,
        introspected: past.introspected,
    };
    told["listed"] = taken.listed.into();
    told["shown"] = taken.shown.into();
    told["saves"] = balance.saves().into();
    told["introspection"] = taken.introspection.into();
    told["net"] = balance.net().into();
    told["word"] = json!(row.is_suite.then(|| balance.advice(&row.child)).flatten());
    (told, balance.net())
}

/// Tokens listed without and shown with Switchboard, and the number of suites; unknown suites are left out.
fn totals(all: &SavingsSnapshot, kept: &SavingsFile, view: &WorkspaceView) -> (u64, u64, usize) {
    let known = view.suites.iter().filter_map(|at| {
        let row = &all.suites[*at];
        match &row.known {
            ToolsKnown::Yes(suite_tools) => suite_tokens(kept, row, suite_tools),
            _ => None,
        }
    });
    let (mut listed, mut shown, mut suites) = (0, kept.tokens(view.instructions).unwrap_or(0), 0);
    for taken in known {
        listed += taken.listed;
        shown += taken.shown;
        suites += 1;
    }
    (listed, shown, suites)
}

fn view(all: &SavingsSnapshot, kept: &SavingsFile, view: &WorkspaceView) -> Value {
    let (listed, shown, suites) = totals(all, kept, view);
    let held = view.suites.iter().filter(|at| matches!(all.suites[**at].known, ToolsKnown::Held)).count();
    json!({
        "workspace": view.root,
        "listed": listed,
        "shown": shown,
        "instructions": kept.tokens(view.instructions),
        "saves": signed(listed) - signed(shown),
        "suites": suites,
        "held": held,
        "unknown": view.suites.len() - suites - held,
    })
}

fn session(all: &SavingsSnapshot, kept: &SavingsFile, session_row: &SessionRow) -> Value {
    let fetched: Vec<Option<u64>> = session_row
        .fetched
        .iter()
        .map(|(mark, times)| kept.tokens(*mark).map(|tokens| tokens * times))
        .collect();
    let introspected: u64 = fetched.iter().flatten().sum();
    let (listed, shown) = match &session_row.child {
        None => {
            let (listed, shown, _) = totals(all, kept, &all.views[session_row.view]);
            (listed, shown)
        }
        // A single child is shown unchanged: nothing is saved and nothing is lost.
        Some(child) => {
            let mut rows = all.views[session_row.view].suites.iter().map(|at| &all.suites[*at]);
            let listed = rows.find(|row| row.child == *child).and_then(|row| match &row.known {
                ToolsKnown::Yes(suite_tools) => {
                    suite_tokens(kept, row, suite_tools).map(|taken| taken.listed)
                }
                _ => None,
            });
            (listed.unwrap_or(0), listed.unwrap_or(0))
        }
    };
    json!({
        "client": session_row.client,
        "workspace": session_row.folder,
        "child": session_row.child,
        "listed": listed,
        "shown": shown,
        "introspections": session_row.fetched.iter().map(|(_, times)| times).sum::<u64>(),
        "introspected": introspected,
        "saves": signed(listed) - signed(shown) - signed(introspected),
        "children": session_row.used.len(),
    })
}

/// Sessions that have used one of its children.
fn users(all: &SavingsSnapshot, pool_usage: &PoolUsage) -> usize {
    let is_one =
        |used: &Fingerprint| *used == pool_usage.fingerprint || pool_usage.of_workspaces.contains(used);
    all.sessions.iter().filter(|session_row| session_row.used.iter().any(is_one)).count()
}

/// Children that the open sessions would have started without Switchboard: an editor starts each server that it is
/// configured with, once in each window.
fn viewers(all: &SavingsSnapshot, pool_usage: &PoolUsage) -> usize {
    let of_session = |session_row: &SessionRow| {
        let rows = all.views[session_row.view].suites.iter().map(|at| &all.suites[*at]);
        let seen = rows.filter(|row| session_row.child.as_ref().is_none_or(|child| *child == row.child));
        let pools = seen.filter_map(|row| row.pool_usage.as_ref());
        pools.filter(|pool| pool.fingerprint == pool_usage.fingerprint).count()
    };
    all.sessions.iter().map(of_session).sum()
}

/// Children that sessions would run without sharing, minus those that run. Negative if more run.
fn avoided(all: &SavingsSnapshot, pool_usage: &PoolUsage) -> i64 {
    signed(viewers(all, pool_usage) as u64) - signed(pool_usage.children as u64)
}

/// Estimate: the average private memory of a running child, times the avoided children. `None` if none runs.
fn memory_avoided(all: &SavingsSnapshot, pool_usage: &PoolUsage) -> Option<i64> {
    let each = signed(pool_usage.copies?) / signed(pool_usage.children.max(1) as u64);
    Some(each * avoided(all, pool_usage))
}

/// Local pools without duplicates: two definitions may share one.
fn pool_usages(all: &SavingsSnapshot) -> Vec<&PoolUsage> {
    let mut seen = HashSet::new();
    let stocks = all.suites.iter().filter_map(|row| row.pool_usage.as_ref());
    stocks.filter(|pool_usage| !pool_usage.is_remote && seen.insert(pool_usage.fingerprint)).collect()
}

fn processes(all: &SavingsSnapshot, peak: i64) -> Value {
    let (mut without, mut used, mut running) = (0, 0, 0);
    for pool_usage in pool_usages(all) {
        without += signed(viewers(all, pool_usage) as u64);
        used += signed(users(all, pool_usage) as u64);
        running += signed(pool_usage.children as u64);
    }
    json!({
        "sessions": all.sessions.len(),
        "without": without,
        "used": used,
        "running": running,
        "avoided": without - running,
        "avoidedOfUsed": used - running,
        "peakAvoided": peak.max(used - running),
    })
}

fn memory(all: &SavingsSnapshot) -> Value {
    let children: u64 = pool_usages(all).iter().filter_map(|pool_usage| pool_usage.memory).sum();
    let avoided: i64 = pool_usages(all).iter().filter_map(|pool_usage| memory_avoided(all, pool_usage)).sum();
    let is_unknown = |pool_usage: &&&PoolUsage| pool_usage.copies.is_none() && viewers(all, pool_usage) > 0;
    let unknown = pool_usages(all).iter().filter(is_unknown).count();
    let shims: u64 = all.sessions.iter().filter_map(|session_row| session_row.shim).sum();
    let own = signed(all.daemon.unwrap_or(0)) + signed(shims);
    json!({
        "childrenBytes": children,
        "avoidedBytes": avoided,
        // Servers that do not run: what a copy of them would take is not known, and not counted.
        "unknownServers": unknown,
        "daemonBytes": all.daemon,
        "shimsBytes": shims,
        "netBytes": avoided - own,
    })
}

fn cold(past: &SuiteTotals) -> Value {
    json!({
        "avoided": past.cold_avoided,
        "avoidedMs": past.cold_avoided_ms,
        "added": past.cold_added,
        "addedMs": past.cold_added_ms,
    })
}
