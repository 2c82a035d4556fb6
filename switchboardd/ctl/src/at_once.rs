//! Does several things at once, and says on a terminal what is still waited for.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::output::{columns_of, error_width, person_reads_errors, progress};

/// More package runners at a time only wait for each other.
const MAX_AT_ONCE: usize = 8;

/// A quicker run shows no progress.
const QUIET_FOR: Duration = Duration::from_millis(300);

/// Runs all of them, each with the name that the progress line shows; the results are in the same order. `doing`
/// begins the line: `starting`.
pub(super) async fn run_all<F: Future>(doing: &str, jobs: Vec<(String, F)>) -> Vec<F::Output> {
    let (names, jobs): (Vec<String>, Vec<F>) = jobs.into_iter().unzip();
    let mut running: Vec<Pin<Box<F>>> = jobs.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    let is_watched = person_reads_errors();
    let begun = tokio::time::Instant::now();
    let mut tick = tokio::time::interval_at(begun + QUIET_FOR, Duration::from_secs(1));
    let mut shown = String::new();
    poll_fn(|context| {
        let mut unfinished = 0;
        for (future, result) in running.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *result = Some(done),
                Poll::Pending => unfinished += 1,
            }
            if unfinished == MAX_AT_ONCE {
                break;
            }
        }
        if results.iter().all(Option::is_some) {
            return Poll::Ready(());
        }
        while is_watched && tick.poll_tick(context).is_ready() {}
        if is_watched && begun.elapsed() >= QUIET_FOR {
            let waiting: Vec<&str> = names
                .iter()
                .zip(&results)
                .filter(|(_, result)| result.is_none())
                .map(|(name, _)| name.as_str())
                .collect();
            let line = line(doing, names.len(), &waiting, begun.elapsed(), error_width());
            if line != shown {
                progress(&printable!("{line}"));
                shown = line;
            }
        }
        Poll::Pending
    })
    .await;
    if !shown.is_empty() {
        progress(&Printable::default());
    }
    results.into_iter().flatten().collect()
}

/// Says on a terminal what is done if it takes long.
pub(super) async fn noted<F: Future>(doing: &str, job: F) -> F::Output {
    let mut job = std::pin::pin!(job);
    if let Ok(done) = tokio::time::timeout(QUIET_FOR, &mut job).await {
        return done;
    }
    let is_watched = person_reads_errors();
    if is_watched {
        progress(&printable!("{doing} …"));
    }
    let done = job.await;
    if is_watched {
        progress(&Printable::default());
    }
    done
}

/// `starting 13 servers: 9 answered, waiting for a, b (4 s)`.
fn line(doing: &str, all: usize, waiting: &[&str], since: Duration, width: usize) -> String {
    let servers = if all == 1 { "server" } else { "servers" };
    let head = format!("{doing} {all} {servers}: {} done, waiting for ", all - waiting.len());
    let tail = format!(" ({} s)", since.as_secs());
    let room = width.saturating_sub(columns_of(&head) + columns_of(&tail) + 1);
    for shown in (1..=waiting.len()).rev() {
        let rest = waiting.len() - shown;
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        let names = format!("{}{more}", waiting[..shown].join(", "));
        if columns_of(&names) <= room {
            return format!("{head}{names}{tail}");
        }
    }
    format!("{head}{}{tail}", waiting.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_fits() {
        let line =
            |waiting: &[&str], width| line("starting", 13, waiting, Duration::from_millis(4200), width);
        assert_eq!(line(&["time"], 120), "starting 13 servers: 12 done, waiting for time (4 s)");
        let names = ["a", "b", "cccccccccccccc"];
        assert_eq!(line(&names, 45), "starting 13 servers: 10 done, waiting for 3 (4 s)");
        assert_eq!(line(&names, 65), "starting 13 servers: 10 done, waiting for a, b and 1 more (4 s)");
    }

    #[tokio::test(start_paused = true)]
    async fn results_keep_their_order() {
        let jobs = (0..20_u64).map(|at| {
            let job = async move {
                tokio::time::sleep(Duration::from_millis(20 - at)).await;
                at
            };
            (at.to_string(), job)
        });
        let begun = tokio::time::Instant::now();
        assert_eq!(run_all("starting", jobs.collect()).await, (0..20).collect::<Vec<_>>());
        assert!(begun.elapsed() < Duration::from_millis(70), "{:?}", begun.elapsed());
    }
}
