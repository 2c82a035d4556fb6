//! Prints what was measured, and checks it against its bounds.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::answer::Place;
use super::choice::Found;
use super::hosts::HOSTS;
use super::long::{LongDefinition, LongDefinitions, SHORTEST_CUT};
use super::measure::{Finding, Outcome, Tally, Way, Whole};

/// The way that most bounds are about.
const NOW: &str = "suites now";
const ONE_TOOL: &str = "suites now, `split: false`";
const WITH_FIND: &str = "suites now, with `find`";

/// On each of the two sets of intents that the ranking was never tuned on.
const MIN_FIRST: f64 = 0.75;
const MIN_AMONG_THREE: f64 = 0.90;
/// Bytes, with a second tool for the servers that mark what only reads.
const MAX_START: usize = 12_000;
const MAX_MEDIAN_COST: usize = 1_200;
const MAX_WORST_COST: usize = 3_000;
const MAX_WHOLE: usize = 6_000;
/// With one tool for each server.
const MAX_START_ONE_TOOL: usize = 8_000;
/// With `find`, which searches all servers at once. A little worse than measured: a loss is seen.
const FIND_MIN_FIRST: f64 = 0.60;
const FIND_MIN_AMONG_THREE: f64 = 0.80;
const FIND_MAX_MEDIAN_COST: usize = 1_500;
const FIND_MAX_WORST_COST: usize = 4_000;

/// What one way of showing promises for a set of intents.
struct SetBounds {
    first: f64,
    among_three: f64,
    median_cost: usize,
    worst_cost: usize,
}

const OF_SUITES: SetBounds = SetBounds {
    first: MIN_FIRST,
    among_three: MIN_AMONG_THREE,
    median_cost: MAX_MEDIAN_COST,
    worst_cost: MAX_WORST_COST,
};
const OF_FIND: SetBounds = SetBounds {
    first: FIND_MIN_FIRST,
    among_three: FIND_MIN_AMONG_THREE,
    median_cost: FIND_MAX_MEDIAN_COST,
    worst_cost: FIND_MAX_WORST_COST,
};

impl Finding {
    fn way(&self, name: &str) -> &Way {
        self.ways.iter().find(|way| way.name == name).unwrap()
    }

    /// Every bound that is not kept, as a sentence.
    pub fn beyond_bounds(&self) -> Vec<String> {
        let now = self.way(NOW);
        let start = now.start.unwrap();
        let mut beyond = Vec::new();
        let mut check = |is_kept: bool, sentence: String| beyond.extend((!is_kept).then_some(sentence));
        let find = self.way(WITH_FIND);
        for (set, tally, bounds) in [
            ("held out", &now.heldout, &OF_SUITES),
            ("fresh", &now.fresh, &OF_SUITES),
            ("held out, with `find`", &find.heldout, &OF_FIND),
            ("fresh, with `find`", &find.fresh, &OF_FIND),
        ] {
            let tally = tally.as_ref().unwrap();
            for (what, share, least) in [
                ("first", tally.first(), bounds.first),
                ("among three", tally.among_three(), bounds.among_three),
            ] {
                check(share >= least, format!("{set}, {what}: {} < {}", percent(share), percent(least)));
            }
            let missing = tally.missing();
            check(missing == 0, format!("{set}, missing: {missing} of {}", tally.outcomes.len()));
            for (what, bytes, most) in [
                ("median", tally.median_cost(), bounds.median_cost),
                ("worst", tally.worst_cost(), bounds.worst_cost),
            ] {
                check(bytes <= most, format!("{set}, found and called, {what}: {bytes} B > {most}"));
            }
        }
        let one_tool = self.way(ONE_TOOL).start.unwrap();
        for (way, bytes, most) in
            [(NOW, start.eleven.bytes, MAX_START), (ONE_TOOL, one_tool.eleven.bytes, MAX_START_ONE_TOOL)]
        {
            check(bytes <= most, format!("eleven servers, {way}: {bytes} B > {most}"));
        }
        for whole in &self.wholes {
            let (server, bytes) = (&whole.server, whole.bytes);
            check(bytes <= MAX_WHOLE, format!("`introspect` of {server}: {bytes} B > {MAX_WHOLE}"));
            for (host, reach) in HOSTS.iter().zip(whole.reach) {
                let all = whole.tools;
                check(
                    reach == all,
                    format!("{server} in {}: {reach} of {all} subtools reach the model", host.name),
                );
            }
        }
        beyond
    }

    /// The tables for the docs.
    pub fn markdown(&self) -> String {
        let choices = self.choices();
        [self.starts(), choices, self.places(), self.introspects(), self.reach(), self.long(), limits()]
            .join("\n")
    }

    fn starts(&self) -> String {
        let mut out = String::from(
            "At the start of a session, `tools/list` and instructions:\n\n| | 11 servers, bytes | tokens | 16 servers, bytes | tokens |\n|---|---|---|---|---|\n",
        );
        for way in &self.ways {
            let _ = match way.start {
                Some(start) => {
                    let (eleven, sixteen) = (start.eleven, start.sixteen);
                    writeln!(
                        out,
                        "| {} | {} | {} | {} | {} |",
                        way.name, eleven.bytes, eleven.tokens, sixteen.bytes, sixteen.tokens
                    )
                }
                None => writeln!(out, "| {} | not available | | | |", way.name),
            };
        }
        out
    }

    fn places(&self) -> String {
        let mut out = String::from(
            "Where the right subtool stands in the answer, and how many bytes it takes to find and call it:\n\n| | intents | first | among three | shown below | only named | missing | bytes, median | worst |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for way in self.ways.iter().filter(|way| way.heldout.is_some()) {
            for (set, tally) in [("held out", &way.heldout), ("fresh", &way.fresh), ("tuned on", &way.tuned)]
            {
                let Some(tally) = tally else { continue };
                let _ = writeln!(out, "| {}, {set} | {}", way.name, places(tally));
            }
        }
        out
    }

    fn choices(&self) -> String {
        let mut out = String::from(
            "Which suite a plain BM25 search over all tools finds for an intent, of 16 servers:\n\n| | held out: first | among three | fresh: first | among three | tuned on: first | among three |\n|---|---|---|---|---|---|---|\n",
        );
        for choice in &self.choices {
            let of = |found: &Found| {
                let share = |count: usize| percent(count as f64 / found.intents as f64);
                format!("{} | {}", share(found.first), share(found.among_three))
            };
            let sets = [&choice.heldout, &choice.fresh, &choice.tuned].map(of);
            let _ = writeln!(out, "| {} | {} |", choice.way, sets.join(" | "));
        }
        out
    }

    fn long(&self) -> String {
        let LongDefinitions { definitions, long } = &self.long_definitions;
        let mut out = format!(
            "One whole definition (`introspect` with `subtool`) is given as the server wrote it. {} of {definitions} are longer than {SHORTEST_CUT} bytes:\n\n| definition | bytes | cut by |\n|---|---|---|\n",
            long.len()
        );
        for LongDefinition { server, subtool, bytes, cut_by } in long {
            let _ = writeln!(out, "| {server} `{subtool}` | {bytes} | {} |", cut_by.join(", "));
        }
        out
    }

    fn introspects(&self) -> String {
        let mut out =
            String::from("`introspect` without a query:\n\n| server | subtools | bytes |\n|---|---|---|\n");
        for Whole { server, tools, bytes, .. } in &self.wholes {
            let _ = writeln!(out, "| {server} | {tools} | {bytes} |");
        }
        out
    }

    fn reach(&self) -> String {
        let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
        let mut out = format!(
            "Subtools of a whole `introspect` that reach the model:\n\n| | {} |\n|---|{}\n",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for whole in &self.wholes {
            let reach: Vec<String> = whole.reach.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "| {} {} | {} |", whole.server, whole.tools, reach.join(" | "));
        }
        out
    }

    /// For those who work on the ranking, about the tuned intents only: each server, and what is not first. Of the
    /// others, nothing but totals is ever printed.
    pub fn details(&self) -> String {
        let mut out = String::new();
        for choice in &self.choices {
            let _ = writeln!(
                out,
                "{}: tuned intents whose suite is not first, and what is before it",
                choice.way
            );
            choice.wrong.iter().for_each(|wrong| out.extend(["  ", wrong, "\n"]));
        }
        for way in &self.ways {
            let Some(tuned) = &way.tuned else { continue };
            let _ = writeln!(out, "{}, by server, tuned on: first, among three, of all", way.name);
            for (server, (first, three, all)) in by_server(tuned) {
                let _ = writeln!(out, "  {server:12} {first:3} {three:3} {all:3}");
            }
            if way.name.starts_with(NOW) {
                let _ = writeln!(out, "tuned intents whose subtool is not first:");
                for Outcome { intent, place, shown, .. } in
                    tuned.outcomes.iter().filter(|outcome| outcome.place != Place::First)
                {
                    let _ = writeln!(
                        out,
                        "  {place:?}: {} `{}` wants {}, shown {}",
                        intent.server,
                        intent.text,
                        intent.subtools.join(" or "),
                        shown.join(", ")
                    );
                }
                let mut costly: Vec<&Outcome> = tuned.outcomes.iter().collect();
                costly.sort_by_key(|outcome| std::cmp::Reverse(outcome.cost));
                let _ = writeln!(out, "most bytes, tuned intents:");
                for Outcome { intent, cost, place, .. } in costly.into_iter().take(10) {
                    let _ = writeln!(out, "  {cost} B, {place:?}: {} `{}`", intent.server, intent.text);
                }
            }
        }
        out
    }
}

/// How many are first, among three, and all.
type Counts = (usize, usize, usize);

fn by_server(tally: &Tally) -> BTreeMap<&str, Counts> {
    let mut servers: BTreeMap<&str, Counts> = BTreeMap::new();
    for outcome in &tally.outcomes {
        let counts = servers.entry(&outcome.intent.server).or_default();
        counts.0 += usize::from(outcome.place == Place::First);
        counts.1 += usize::from(matches!(outcome.place, Place::First | Place::AmongThree));
        counts.2 += 1;
    }
    servers
}

fn places(tally: &Tally) -> String {
    format!(
        "{} | {} | {} | {} | {} | {} | {} | {} |",
        tally.outcomes.len(),
        percent(tally.first()),
        percent(tally.among_three()),
        tally.count(|place| place == Place::Lower),
        tally.count(|place| place == Place::Named),
        tally.missing(),
        tally.median_cost(),
        tally.worst_cost()
    )
}

fn limits() -> String {
    let mut out = String::from("Limits of the hosts:\n\n");
    for host in HOSTS {
        let _ = writeln!(out, "- {} {}", host.name, host.source);
    }
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
