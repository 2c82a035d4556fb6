//! Jobs: test executables and steps. Several run at once, each with its output in a file, which is shown when
//! the job has ended.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::build::{TestExecutable, without_own_package};

/// After this long without a result it is said what still runs.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Job {
    pub name: String,
    command: Command,
    /// Prints one `test result:` line; the rest of its output is shown only if it fails.
    is_test: bool,
}

impl Job {
    #[expect(clippy::disallowed_methods, reason = "runs a test, which is no child")]
    pub fn test(test: &TestExecutable) -> Self {
        let mut command = Command::new(&test.file);
        command.current_dir(&test.package);
        Self::new(&test.name, command, true)
    }

    #[expect(clippy::disallowed_methods, reason = "runs a program of the tests, which is no child")]
    pub fn program(name: &str, bin: &Path, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(bin.join(program));
        command.args(args);
        Self::new(name, command, false)
    }

    /// A script of `proto-tests`, which is given the directory of the programs.
    pub fn script(name: &str, root: &Path, file: &str, bin: &Path) -> Self {
        let mut command = bash(root, file);
        command.arg(bin);
        Self::new(name, command, false)
    }

    fn new(name: &str, mut command: Command, is_test: bool) -> Self {
        without_own_package(&mut command);
        // Tests would call cargo to build the programs that they start.
        command.env("PROTO_TESTS_BUILT", "1").stdin(Stdio::null());
        Self { name: name.to_owned(), command, is_test }
    }

    fn run(mut self) -> Ended {
        let begin = Instant::now();
        let (succeeded, output) = match with_output(&mut self.command) {
            Ok((status, output)) if status.success() => (true, output),
            Ok((status, output)) => (false, format!("{output}\n{} ended with {status}\n", self.name)),
            Err(error) => (false, format!("{} could not be run: {error}\n", self.name)),
        };
        Ended { name: self.name, is_test: self.is_test, succeeded, output, took: begin.elapsed() }
    }
}

#[expect(clippy::disallowed_methods, reason = "runs scripts of the tests, which are no children")]
fn bash(root: &Path, file: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(root.join("proto-tests").join(file)).current_dir(root);
    command
}

/// Both streams go to one file, in the order in which they are written. A pipe would stay open as long as a
/// process that the job left behind.
pub fn with_output(command: &mut Command) -> std::io::Result<(std::process::ExitStatus, String)> {
    let path =
        std::env::temp_dir().join(format!("verify-{}-{:?}", std::process::id(), thread::current().id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let status = command.stdout(file.try_clone()?).stderr(file.try_clone()?).status()?;
    let mut output = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut output)?;
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

#[derive(Debug)]
struct Ended {
    name: String,
    is_test: bool,
    succeeded: bool,
    output: String,
    took: Duration,
}

/// How many jobs run at once: most of them wait half of the time.
fn at_once() -> usize {
    thread::available_parallelism().map_or(2, usize::from).saturating_mul(2).min(8)
}

/// Runs the jobs in their order, some at a time.
pub fn run(jobs: Vec<Job>, tally: &mut Tally) {
    let running = Mutex::new(Vec::new());
    let queue = Mutex::new(VecDeque::from(jobs));
    let next = || {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        running.lock().unwrap_or_else(PoisonError::into_inner).push(job.name.clone());
        Some(job)
    };
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..at_once() {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(job) = next() {
                    let _ = sender.send(job.run());
                }
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(SILENCE) {
                Ok(ended) => {
                    running.lock().unwrap_or_else(PoisonError::into_inner).retain(|name| *name != ended.name);
                    tally.add(&ended);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("… still running: {}", running.join(", "));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// What came of all jobs.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    steps: u64,
    /// The failed jobs.
    bad: Vec<FailedJob>,
}

#[derive(Debug)]
struct FailedJob {
    name: String,
    /// The end of its output.
    tail: String,
}

/// How many lines of a failed job's output are shown once more at the end, where they are found.
const SHOWN_AGAIN: usize = 60;

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

impl Tally {
    fn add(&mut self, ended: &Ended) {
        let Ended { name, is_test, succeeded, output, took } = ended;
        let seconds = took.as_secs_f64();
        let result = output.lines().rev().find(|line| line.starts_with("test result: "));
        if *is_test {
            let (passed, failed) =
                result.map_or((0, 0), |line| (count(line, "passed"), count(line, "failed")));
            self.passed += passed;
            self.failed += failed;
        }
        // A test executable that ended well without a result has run nothing.
        let succeeded = *succeeded && (result.is_some() || !is_test);
        match (is_test, succeeded) {
            (true, true) => println!("{name:<28} {seconds:>6.1} s  {}", result.unwrap_or_default()),
            (false, true) => {
                self.steps += 1;
                println!("── {name} ──\n{}\n── {name}: passed ({seconds:.1} s) ──", output.trim_end());
            }
            (_, false) => {
                self.bad.push(FailedJob { name: name.clone(), tail: last_lines(output, SHOWN_AGAIN) });
                println!("── {name} ──\n{}\n── {name}: FAILED ({seconds:.1} s) ──", output.trim_end());
            }
        }
    }

    pub fn is_good(&self) -> bool {
        self.bad.is_empty() && self.failed == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.bad.is_empty() {
            for job in &self.bad {
                writeln!(out, "── the end of what {} said ──\n{}\n", job.name, job.tail)?;
            }
            let names: Vec<&str> = self.bad.iter().map(|job| &*job.name).collect();
            writeln!(out, "failed: {}", names.join(", "))?;
        }
        write!(out, "{} tests passed, {} failed; {} other steps passed", self.passed, self.failed, self.steps)
    }
}

/// The number before `word` in `test result: ok. 12 passed; 0 failed; …`.
fn count(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let number = words.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0].parse());
    number.and_then(Result::ok).unwrap_or(0)
}

/// The installation of packages, which runs while the tests are built.
#[derive(Debug)]
pub struct Install(Option<Child>);

/// Starts to install what the steps need. Each step looks for itself whether it has what it needs, and says
/// so if not; here nothing can fail.
pub fn start_install(root: &Path) -> Install {
    let mut command = bash(root, "interop/install-all.sh");
    without_own_package(&mut command);
    Install(command.stdin(Stdio::null()).spawn().ok())
}

impl Install {
    pub fn wait(self) {
        if let Some(mut install) = self.0 {
            let _ = install.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(is_test: bool, succeeded: bool, output: &str) -> Ended {
        Ended { name: "a".into(), is_test, succeeded, output: output.into(), took: Duration::ZERO }
    }

    #[test]
    fn results_are_added_up() {
        let mut tally = Tally::default();
        tally.add(&ended(
            true,
            true,
            "test a ... ok\n\ntest result: ok. 12 passed; 0 failed; 1 ignored; finished",
        ));
        tally.add(&ended(false, true, "all is well"));
        assert!(tally.is_good());
        assert_eq!(tally.to_string(), "12 tests passed, 0 failed; 1 other steps passed");
        tally.add(&ended(true, false, "test result: FAILED. 3 passed; 2 failed; 0 ignored"));
        assert!(!tally.is_good());
        let shown = tally.to_string();
        assert!(shown.ends_with("\nfailed: a\n15 tests passed, 2 failed; 1 other steps passed"), "{shown}");
    }

    #[test]
    fn the_end_of_a_failed_jobs_output_is_shown_again() {
        let mut tally = Tally::default();
        let said: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        tally.add(&ended(false, false, &said));
        let shown = tally.to_string();
        assert!(shown.contains("the end of what a said") && shown.contains("\nline 100\n"), "{shown}");
        assert!(shown.contains("\nline 41\n") && !shown.contains("line 40\n"), "{shown}");
    }

    #[test]
    fn a_test_without_a_result_has_failed() {
        let mut tally = Tally::default();
        tally.add(&ended(true, true, "exit(0) was called"));
        assert!(!tally.is_good());
    }

    #[test]
    fn output_of_both_streams_is_kept() {
        #[expect(clippy::disallowed_methods, reason = "tests start processes")]
        let mut command = Command::new("sh");
        let (status, output) = with_output(command.args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert_eq!((status.code(), &*output), (Some(3), "out\nerr\n"));
    }
}
