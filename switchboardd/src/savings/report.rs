//! From what was gathered and noted to the figures.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::gather::{Behind, Gathered, Guest, Known, Row, Stock, View};
use super::word::{Balance, signed};
use crate::thrift::{Kept, Mark, Past};
use crate::time::utc;
use crate::tokens::TOKENIZER;

/// What a reader of these numbers must know.
const NOTE: &str = "counted with OpenAI's o200k_base; Claude's tokenizer is not public, and its counts differ by some percent";

/// What a suite takes before a model, in tokens.
struct Taken {
    listed: u64,
    shown: u64,
    introspection: u64,
}

pub(super) fn report(all: &Gathered, kept: &Kept, peak: i64, problem: Option<&str>) -> Value {
    let board = kept.past(Mark::BOARD);
    let mut net = 0;
    let mut past = Past::default();
    let mut suites = Vec::new();
    // Two definitions may share a pool.
    let mut pools = HashSet::new();
    for row in &all.suites {
        let (told, own_net) = suite(all, kept, row);
        net += own_net;
        if let Some(stock) = row.stock.as_ref().filter(|stock| pools.insert(stock.mark)) {
            past += &kept.past(stock.mark);
        }
        suites.push(told);
    }
    let instructions = kept.tokens(all.views[0].instructions);
    let overhead = signed(board.sessions) * signed(instructions.unwrap_or(0));
    json!({
        "tokenizer": { "name": TOKENIZER, "note": NOTE },
        "since": utc(UNIX_EPOCH + Duration::from_secs(kept.since)),
        "problem": problem,
        "perSession": view(all, kept, &all.views[0]),
        "workspaces": all.views[1..].iter().map(|one| view(all, kept, one)).collect::<Vec<_>>(),
        "suites": suites,
        "sessions": all.sessions.iter().map(|one| session(all, kept, one)).collect::<Vec<_>>(),
        "tokens": {
            "sessions": board.sessions,
            "introspections": past.introspections,
            "introspected": past.introspected,
            "uncounted": past.uncounted,
            "instructions": overhead,
            "net": net - overhead,
        },
        "processes": processes(all, peak),
        "memory": memory(all),
        "coldStarts": cold(&past),
    })
}

fn taken(kept: &Kept, row: &Row, behind: &Behind) -> Option<Taken> {
    Some(Taken {
        listed: behind.listed.iter().map(|mark| kept.tokens(*mark)).sum::<Option<u64>>()?,
        shown: kept.tokens(row.shown)?,
        introspection: kept.tokens(behind.introspection)?,
    })
}

/// A suite's figures, and its part of the whole.
fn suite(all: &Gathered, kept: &Kept, row: &Row) -> (Value, i64) {
    let mut told = json!({
        "name": row.name,
        "child": row.child,
        "workspace": row.workspace,
        "known": matches!(row.known, Known::Yes(_)),
        "why": match row.known {
            Known::Yes(_) => None,
            Known::No => Some("it has not run yet"),
            Known::Held => Some("it is held"),
            Known::Misconfigured => Some("it cannot be started"),
        },
    });
    let Some(stock) = &row.stock else { return (told, 0) };
    let past = kept.past(stock.mark);
    told["sessions"] = past.sessions.into();
    told["introspections"] = past.introspections.into();
    told["introspected"] = past.introspected.into();
    told["uncounted"] = past.uncounted.into();
    told["coldStarts"] = cold(&past);
    told["startMs"] = json!(stock.start_ms);
    told["children"] = stock.children.into();
    told["sessionsNow"] = users(all, stock).into();
    told["childrenAvoided"] = avoided(all, stock).into();
    told["memoryBytes"] = json!(stock.memory);
    told["memoryAvoidedBytes"] = json!(memory_avoided(all, stock));
    let Known::Yes(behind) = &row.known else { return (told, 0) };
    told["tools"] = behind.tools.into();
    told["hiddenTools"] = behind.hidden.into();
    let Some(taken) = taken(kept, row, behind) else {
        told["known"] = false.into();
        told["why"] = "it could not be counted".into();
        return (told, 0);
    };
    let balance = Balance {
        tools: behind.tools,
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
    told["word"] = json!(balance.word(&row.name, &row.child));
    (told, balance.net())
}

/// What one session is shown, against what it would be shown; suites of which nothing is known aside.
fn totals(all: &Gathered, kept: &Kept, view: &View) -> (u64, u64, usize) {
    let known = view.suites.iter().filter_map(|at| {
        let row = &all.suites[*at];
        match &row.known {
            Known::Yes(behind) => taken(kept, row, behind),
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

fn view(all: &Gathered, kept: &Kept, view: &View) -> Value {
    let (listed, shown, suites) = totals(all, kept, view);
    let held = view.suites.iter().filter(|at| matches!(all.suites[**at].known, Known::Held)).count();
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

fn session(all: &Gathered, kept: &Kept, guest: &Guest) -> Value {
    let fetched: Vec<Option<u64>> =
        guest.fetched.iter().map(|(mark, times)| kept.tokens(*mark).map(|tokens| tokens * times)).collect();
    let introspected: u64 = fetched.iter().flatten().sum();
    let (listed, shown) = match &guest.child {
        None => {
            let (listed, shown, _) = totals(all, kept, &all.views[guest.view]);
            (listed, shown)
        }
        // As it is: nothing is saved, nothing is lost.
        Some(child) => {
            let mut rows = all.views[guest.view].suites.iter().map(|at| &all.suites[*at]);
            let listed = rows.find(|row| row.child == *child).and_then(|row| match &row.known {
                Known::Yes(behind) => taken(kept, row, behind).map(|taken| taken.listed),
                _ => None,
            });
            (listed.unwrap_or(0), listed.unwrap_or(0))
        }
    };
    json!({
        "client": guest.client,
        "workspace": guest.folder,
        "child": guest.child,
        "listed": listed,
        "shown": shown,
        "introspections": guest.fetched.iter().map(|(_, times)| times).sum::<u64>(),
        "introspected": introspected,
        "saves": signed(listed) - signed(shown) - signed(introspected),
        "children": guest.used.len(),
    })
}

fn users(all: &Gathered, stock: &Stock) -> usize {
    all.sessions.iter().filter(|guest| guest.used.contains(&stock.mark)).count()
}

/// Children that sessions would have for themselves, less those that run. Below zero when more run than are used.
fn avoided(all: &Gathered, stock: &Stock) -> i64 {
    signed(users(all, stock) as u64) - signed(stock.children as u64)
}

/// An estimate: what is private to a child that runs now, for each that does not. Nobody knows it where none runs.
fn memory_avoided(all: &Gathered, stock: &Stock) -> Option<i64> {
    let each = signed(stock.copies?) / signed(stock.children.max(1) as u64);
    Some(each * avoided(all, stock))
}

/// Each pool once: two definitions may share one.
fn stocks(all: &Gathered) -> Vec<&Stock> {
    let mut seen = HashSet::new();
    let stocks = all.suites.iter().filter_map(|row| row.stock.as_ref());
    stocks.filter(|stock| !stock.is_remote && seen.insert(stock.mark)).collect()
}

fn processes(all: &Gathered, peak: i64) -> Value {
    let (mut without, mut running) = (0, 0);
    for stock in stocks(all) {
        without += signed(users(all, stock) as u64);
        running += signed(stock.children as u64);
    }
    json!({
        "sessions": all.sessions.len(),
        "without": without,
        "running": running,
        "avoided": without - running,
        "peakAvoided": peak.max(without - running),
    })
}

fn memory(all: &Gathered) -> Value {
    let children: u64 = stocks(all).iter().filter_map(|stock| stock.memory).sum();
    let avoided: i64 = stocks(all).iter().filter_map(|stock| memory_avoided(all, stock)).sum();
    let shims: u64 = all.sessions.iter().filter_map(|guest| guest.shim).sum();
    let own = signed(all.daemon.unwrap_or(0)) + signed(shims);
    json!({
        "childrenBytes": children,
        "avoidedBytes": avoided,
        "daemonBytes": all.daemon,
        "shimsBytes": shims,
        "netBytes": avoided - own,
    })
}

fn cold(past: &Past) -> Value {
    json!({
        "avoided": past.cold_avoided,
        "avoidedMs": past.cold_avoided_ms,
        "added": past.cold_added,
        "addedMs": past.cold_added_ms,
    })
}
