//! Every promise, with what runs to prove it and how large it has to become.

/// A promise about faults, load or attacks.
#[derive(Debug)]
pub struct Row {
    pub id: &'static str,
    pub promise: &'static str,
    pub bound: &'static str,
    pub runs: &'static [Run],
    /// What of the promise no run here measures.
    pub missing: &'static str,
}

/// A test, and its size.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub from: Executable,
    /// The test's name; the beginning of several names if it ends with `::`; empty for all tests.
    pub test: &'static str,
    pub size: Option<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executable {
    /// `tests/NAME.rs` of `proto-tests`.
    Proto(&'static str),
    /// `tests/NAME` of `switchboardd`.
    Daemon(&'static str),
    /// The unit tests of `switchboardd`.
    DaemonUnits,
    /// `tests/shim` of `switchboard-shim`.
    Shim,
    /// A program of `proto-tests`, with its arguments; it ends with a failure if a bound is exceeded.
    Program(&'static str, &'static [&'static str]),
}

/// How large a run is: a variable that the test reads.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub variable: &'static str,
    pub unit: &'static str,
    /// For `--short`.
    pub short: u64,
    /// What runs between two looks at whether to stop.
    pub slice: u64,
    /// What is promised; the variable in the environment of `proofs` changes it.
    pub whole: u64,
    pub seeds: Seeds,
    /// Further variables: one for each so many of the size.
    pub others: &'static [(&'static str, u64)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Each run is the same, or random.
    None,
    /// This variable is the first of as many seeds as the size says.
    Each(&'static str),
    /// This variable decides the whole slice.
    Slice(&'static str),
}

const fn run(from: Executable, test: &'static str) -> Run {
    Run { from, test, size: None }
}

const fn sized(from: Executable, test: &'static str, size: Size) -> Run {
    Run { from, test, size: Some(size) }
}

const fn size(variable: &'static str, unit: &'static str, [short, slice, whole]: [u64; 3]) -> Size {
    Size { variable, unit, short, slice, whole, seeds: Seeds::None, others: &[] }
}

impl Size {
    const fn seeds(self, seeds: Seeds) -> Self {
        Self { seeds, ..self }
    }

    const fn others(self, others: &'static [(&'static str, u64)]) -> Self {
        Self { others, ..self }
    }
}

use Executable::{Daemon, DaemonUnits, Program, Proto, Shim};

/// The first seed of tests that run several.
const FIRST: &str = "SWITCHBOARD_FIRST_SEED";

pub const ROWS: &[Row] = &[
    Row {
        id: "R1",
        promise: "`kill -9` of a server with 64 calls in flight: all callers know, none is run again",
        bound: "p99 100 ms; serving again after 250 ms and the server's own start; 1,000 kills",
        runs: &[sized(
            Proto("breaker"),
            "all_64_calls_in_flight_are_answered_when_their_child_is_killed",
            size("SWITCHBOARD_KILL_ROUNDS", "kills", [20, 100, 1_000]),
        )],
        missing: "",
    },
    Row {
        id: "R2",
        promise: "a server that stops answering: an error at the deadline, and a new process",
        bound: "deadline ± 50 ms; other servers' p99 + 10 %",
        runs: &[run(Proto("breaker"), "a_stopped_child_times_out_its_own_callers_only")],
        missing: "",
    },
    Row {
        id: "R3",
        promise: "each of the misbehaviours that a server can have: a defined error, and nothing panics",
        bound: "60 behaviours",
        runs: &[run(Proto("children"), "")],
        missing: "",
    },
    Row {
        id: "R4",
        promise: "`kill -9` of the daemon: every shim answers its host and lives, and no process is left",
        bound: "answers 1 s; next call 2 s; processes 2 s; 200 kills",
        runs: &[sized(
            Proto("orphans"),
            "all_calls_of_a_killed_daemon_are_answered_and_no_process_is_left",
            size("SWITCHBOARD_DAEMON_KILLS", "kills", [1, 20, 200]),
        )],
        missing: "",
    },
    Row {
        id: "R5",
        promise: "restarts and upgrades under load lose no call and run none twice",
        bound: "0 failed calls; a call that outlasts 10 s gets a clear fault",
        runs: &[
            run(Proto("activation"), "restarts_and_upgrades_under_load_lose_nothing_and_run_nothing_twice"),
            run(Proto("drain"), "a_restart_under_load_fails_no_call_and_runs_none_twice"),
            run(Proto("drain"), "a_call_that_outlasts_the_drain_gets_a_clear_fault"),
        ],
        missing: "",
    },
    Row {
        id: "R6",
        promise: "the end of a host ends its shim, and cancels its calls in the server, which stays",
        bound: "shim 100 ms on a signal, 1.5 s at the end of input; cancelled 200 ms",
        runs: &[
            run(Proto("shim"), "signals_end_the_shim_at_once_with_exit_code_0"),
            run(Proto("shim"), "a_hanging_call_does_not_keep_the_shim_after_the_end_of_input"),
            run(Proto("shim"), "calls_of_a_killed_shim_are_cancelled_and_the_child_stays"),
        ],
        missing: "real editors",
    },
    Row {
        id: "R7",
        promise: "start of the shim to the answer of `initialize`",
        bound: "p50 5 ms, p99 15 ms; 300 ms without a daemon; `tools/list` of 100 servers 5 ms",
        runs: &[run(Program("figures", &["--gate"]), "")],
        missing: "",
    },
    Row {
        id: "R8",
        promise: "added latency of a call",
        bound: "p50 150 µs, p99 1 ms at 1,000 calls/s; 20,000 calls/s",
        runs: &[run(Program("bench", &["--gate"]), "")],
        missing: "",
    },
    Row {
        id: "R9",
        promise: "64 sessions with the same ids: nothing is lost, doubled or misrouted",
        bound: "10,000,000 calls with random cancels and crashes",
        runs: &[
            sized(
                Proto("storm"),
                "no_call_is_lost_doubled_or_misrouted",
                size("SWITCHBOARD_STORM_CALLS", "calls", [2_000, 200_000, 10_000_000]),
            ),
            sized(
                Proto("callers"),
                "no_session_ever_sees_the_traffic_of_another",
                size("SWITCHBOARD_INTERLEAVINGS", "runs", [2, 50, 1_000])
                    .seeds(Seeds::Each("SWITCHBOARD_SEED")),
            ),
        ],
        missing: "",
    },
    Row {
        id: "R10",
        promise: "random and damaged input never panics, hangs or grows",
        bound: "10⁹ executions in all, with those guided by coverage (`.ci/fuzz`)",
        runs: &[sized(
            Daemon("fuzz"),
            "",
            size("SWITCHBOARD_FUZZ_CASES", "cases of each target", [2_000, 100_000, 10_000_000])
                .seeds(Seeds::Each(FIRST)),
        )],
        missing: "",
    },
    Row {
        id: "R11",
        promise: "in every interleaving each request is answered once, or its session is gone",
        bound: "100,000 seeds of the whole daemon; 1,000,000 sequences of each part",
        runs: &[
            sized(
                Daemon("interleavings"),
                "every_request_is_answered_once_whatever_happens",
                size("SWITCHBOARD_SEEDS", "seeds", [40, 500, 100_000]).seeds(Seeds::Each(FIRST)),
            ),
            sized(
                DaemonUnits,
                "model::",
                size("SWITCHBOARD_MODEL_CASES", "sequences", [300, 20_000, 1_000_000])
                    .seeds(Seeds::Slice(FIRST)),
            ),
        ],
        missing: "",
    },
    Row {
        id: "R12",
        promise: "hostile output of a server harms nobody else",
        bound: "memory + 32 MiB for each server; others' p99 × 2",
        runs: &[
            run(Proto("children"), "framing"),
            run(Proto("remote_hostile"), "a_body_of_a_gigabyte"),
            run(Proto("remote_hostile"), "an_event_of_a_gigabyte"),
            run(Proto("questions"), "a_flood_of_logs_is_cut_and_counted"),
            sized(
                Proto("floods"),
                "a_flood_of_output_delays_no_other_host",
                size("SWITCHBOARD_FLOOD_SECONDS", "seconds of each flood", [1, 10, 60]),
            ),
        ],
        missing: "100 MB/s: each run says which rate it reached",
    },
    Row {
        id: "R13",
        promise: "a host that stops reading, or a client that never finishes its request, stalls only itself",
        bound: "8 MiB for each session; 5 s for headers; 1,000 slow connections",
        runs: &[
            run(Proto("shim"), "a_burst_of_notifications_delays_no_other_host"),
            run(Proto("gate"), "headers_have_a_limit_in_size_and_time"),
            run(Proto("floods"), "a_thousand_slow_clients_delay_nobody"),
        ],
        missing: "",
    },
    Row {
        id: "R14",
        promise: "a storm of writes ends in the right state and restarts no unchanged server",
        bound: "1,000 writes/s for 60 s; 4 reloads/s; right 1 s after the last write",
        runs: &[sized(
            Proto("reload"),
            "a_storm_of_writes_ends_in_the_right_state_and_restarts_no_unchanged_child",
            size("SWITCHBOARD_WRITE_SECONDS", "seconds of writes", [2, 60, 60]),
        )],
        missing: "share of a core",
    },
    Row {
        id: "R15",
        promise: "1,000 servers and 10,000 files",
        bound: "scan 1 s; idle memory 15 MB (20 servers), 60 MB (1,000); 1 wake-up/s",
        runs: &[run(Program("figures", &["--gate"]), "")],
        missing: "",
    },
    Row {
        id: "R16",
        promise: "a long run leaks nothing",
        bound: "10⁷ calls, 10⁵ crashes, 10⁴ reloads, 10⁴ sessions: 1 MB for each 10⁶ calls, descriptors and threads ± 0",
        runs: &[sized(
            Proto("soak"),
            "a_long_run_leaks_nothing",
            size("SWITCHBOARD_SOAK_CALLS", "calls", [25_000, 500_000, 10_000_000]).others(&[
                ("SWITCHBOARD_SOAK_CRASHES", 100),
                ("SWITCHBOARD_SOAK_SESSIONS", 1_000),
                ("SWITCHBOARD_SOAK_RELOADS", 1_000),
            ]),
        )],
        missing: "the slopes are those of each slice: the daemon is a new one for the next",
    },
    Row {
        id: "R17",
        promise: "without descriptors, disk, processes or memory there are clear errors, and it recovers alone",
        bound: "no spin (5 % of a core)",
        runs: &[
            run(Proto("record"), "a_full_disk_costs_no_call"),
            run(Proto("orphans"), "descriptors_and_threads_come_back_after_crashes"),
            run(Proto("exhaustion"), ""),
        ],
        missing: "no descriptors in all the machine",
    },
    Row {
        id: "R18",
        promise: "a server that keeps crashing is started rarely, and its callers know immediately why",
        bound: "10 starts/min; answers 5 ms while it rests",
        runs: &[run(Proto("breaker"), "a_crashing_child_is_restarted_rarely_and_its_calls_fail_fast")],
        missing: "",
    },
    Row {
        id: "R19",
        promise: "jumps of the clock and hours of sleep break nothing",
        bound: "no timeouts beyond those that are due",
        runs: &[
            run(Proto("activation"), "watchdog_messages_stop_while_the_daemon_is_stopped"),
            run(Proto("clocks"), "a_jump_of_the_wall_clock_breaks_nothing"),
            sized(
                Proto("clocks"),
                "a_daemon_that_was_stopped_gives_the_answers_that_came_meanwhile",
                size("SWITCHBOARD_STOPPED_SECONDS", "seconds of being stopped", [4, 600, 600]),
            ),
        ],
        missing: "a machine that really sleeps",
    },
    Row {
        id: "R20",
        promise: "the end of the daemon ends all servers and what they started",
        bound: "5 s, exit 0",
        runs: &[run(Proto("orphans"), "a_terminated_daemon_leaves_no_process")],
        missing: "",
    },
    Row {
        id: "R21",
        promise: "daemons that start at the same time: exactly one serves",
        bound: "1,000 times",
        runs: &[sized(
            Proto("shim"),
            "many_shims_start_one_daemon",
            size("SWITCHBOARD_START_ROUNDS", "races of several shims", [1, 50, 1_000]),
        )],
        missing: "",
    },
    Row {
        id: "R22",
        promise: "a panic fails its own call; the daemon lives",
        bound: "that call is answered",
        runs: &[
            run(DaemonUnits, "face::catch::tests::a_panic_is_caught_whenever_it_comes"),
            sized(
                Daemon("panics"),
                "a_panic_fails_at_most_what_it_happens_in",
                size("SWITCHBOARD_PANICS", "panics beside one at each place", [40, 1_000, 1_000]),
            ),
        ],
        missing: "",
    },
    Row {
        id: "R23",
        promise: "everything at the same time: each request is answered once, or its session is gone; nothing is left",
        bound: "2 hours of kills, stops, reloads and full disks",
        runs: &[sized(
            Proto("chaos"),
            "every_request_is_answered_once_whatever_is_done_to_whom",
            size("SWITCHBOARD_CHAOS_SECONDS", "seconds", [8, 120, 7_200])
                .seeds(Seeds::Slice("SWITCHBOARD_SEED")),
        )],
        missing: "",
    },
    Row {
        id: "S1",
        promise: "pages of other sites get nothing over TCP",
        bound: "all of 675 variants of host, origin, content type and route are refused",
        runs: &[run(Proto("gate"), "")],
        missing: "",
    },
    Row {
        id: "S2",
        promise: "another user gets names and states of servers at most, and can call nothing",
        bound: "0 calls",
        runs: &[
            run(Proto("gate"), "another_user_gets_nothing_from_the_socket"),
            run(Proto("private_places"), ""),
        ],
        missing: "",
    },
    Row {
        id: "S3",
        promise: "what was not allowed is never executed, whatever changes in the project",
        bound: "0 executions; 10,000 edits, 100,000 swaps",
        runs: &[sized(
            Proto("edits"),
            "random_edits_never_execute_anything_that_is_not_allowed",
            size("SWITCHBOARD_EDITS", "edits", [400, 2_000, 10_000]).seeds(Seeds::Slice("SWITCHBOARD_SEED")),
        )],
        missing: "",
    },
    Row {
        id: "S4",
        promise: "links, devices, pipes and huge files instead of definitions delay and leak nothing",
        bound: "50 ms for each",
        runs: &[run(Proto("bad_files"), "")],
        missing: "",
    },
    Row {
        id: "S5",
        promise: "no value of a secret is shown anywhere",
        bound: "50 values, 0 occurrences",
        runs: &[run(Proto("canaries"), "")],
        missing: "core dumps",
    },
    Row {
        id: "S6",
        promise: "no variable of the host's environment reaches a server that does not ask for it",
        bound: "0 occurrences",
        runs: &[run(Proto("starting"), "a_child_gets_only_allowed_and_declared_variables")],
        missing: "",
    },
    Row {
        id: "S7",
        promise: "poisoned names and descriptions are cleaned, cut or refused",
        bound: "bidirectional text, escape sequences, a megabyte, duplicates, shadowing",
        runs: &[run(Proto("descriptions"), "")],
        missing: "",
    },
    Row {
        id: "S8",
        promise: "few crates, all of them known",
        bound: "150 crates (shim 15), no `unsafe` of our own",
        runs: &[run(Proto("shim"), "the_shim_depends_on_no_large_crate")],
        missing: "advisories: `cargo deny`, where it is installed",
    },
    Row {
        id: "S9",
        promise: "the record of calls is complete, in order and holds no argument",
        bound: "100,000 calls, 64 at the same time",
        runs: &[sized(
            Proto("record"),
            "a_long_record_is_complete_in_order_and_bounded",
            size("SWITCHBOARD_RECORD_CALLS", "calls", [20_000, 100_000, 100_000]),
        )],
        missing: "",
    },
];

/// The name under which the progress of a run is kept.
pub fn name_of(run: &Run) -> String {
    let from = match run.from {
        Proto(name) | Daemon(name) | Program(name, _) => name,
        DaemonUnits => "units",
        Shim => "shim-units",
    };
    if run.test.is_empty() { from.to_owned() } else { format!("{from}::{}", run.test.trim_end_matches("::")) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_promise_has_a_row() {
        let expected =
            (1..=23).map(|number| format!("R{number}")).chain((1..=9).map(|number| format!("S{number}")));
        assert_eq!(ROWS.iter().map(|row| row.id).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        for row in ROWS {
            assert!(!row.runs.is_empty() || !row.missing.is_empty(), "{} says nothing", row.id);
            let names: HashSet<_> = row.runs.iter().map(name_of).collect();
            assert_eq!(names.len(), row.runs.len(), "{}: two runs have one name", row.id);
        }
    }

    #[test]
    fn every_test_of_a_row_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for run in ROWS.iter().flat_map(|row| row.runs) {
            let file = match run.from {
                Proto(name) => root.join(format!("proto-tests/tests/{name}.rs")),
                Daemon(name) => root.join(format!("switchboardd/tests/{name}/main.rs")),
                Program(name, _) => root.join(format!("proto-tests/src/bin/{name}.rs")),
                DaemonUnits if run.test == "model::" => root.join("switchboardd/src/system/model.rs"),
                DaemonUnits => {
                    let modules: Vec<&str> =
                        run.test.split("::").take_while(|name| *name != "tests").collect();
                    root.join(format!("switchboardd/src/{}.rs", modules.join("/")))
                }
                Shim => root.join("switchboard-shim/tests/shim/main.rs"),
            };
            let text =
                std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let test = run.test.rsplit("::").next().unwrap();
            assert!(
                test.is_empty() || text.contains(&format!("fn {test}()")),
                "no `{test}` in {}",
                file.display()
            );
            if let (Some(size), Proto(_)) = (run.size, run.from) {
                let names = size.others.iter().map(|(name, _)| *name).chain([size.variable]);
                for name in names {
                    let end = name.rsplit('_').next().unwrap();
                    assert!(
                        text.contains(name) || text.contains(&format!("\"{end}\"")),
                        "{name} is not read"
                    );
                }
            }
        }
    }

    #[test]
    fn sizes_grow_and_their_slices_fit() {
        for size in ROWS.iter().flat_map(|row| row.runs).filter_map(|run| run.size) {
            assert!(
                size.short > 0 && size.short <= size.slice && size.slice <= size.whole,
                "{}",
                size.variable
            );
        }
    }
}
