//! The thread that serves all hosts. Code that waits for a disk, or reads data that grows with the machine
//! (`/proc`), must not run on it: a folder that does not respond would block every host.
//!
//! Code that touches files calls [`may_block`] first; a test checks that no other module touches files.
//!
//! In a simulation (a test that drives a whole daemon with tokio's paused clock) there are no other threads,
//! because the order in which they finish is not controlled. While a [`Simulation`] lives, such work runs as
//! a task of the runtime and takes no virtual time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static IS_EVENT_LOOP: Cell<bool> = const { Cell::new(false) };
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
    static IS_ASKING_FOR_A_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread only says that the system gives no thread for blocking work, which is handled.
pub fn is_asking_for_a_thread() -> bool {
    IS_ASKING_FOR_A_THREAD.get()
}

/// While this lives, the current thread is the event loop.
#[derive(Debug)]
pub struct Serving(());

impl Serving {
    /// From here on, nothing on this thread may wait for a disk.
    pub fn begin() -> Self {
        IS_EVENT_LOOP.set(true);
        Self(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        IS_EVENT_LOOP.set(false);
    }
}

/// While it lives, work for other threads runs on this one. Needs a single-threaded runtime.
#[derive(Debug)]
pub struct Simulation(());

impl Simulation {
    pub fn begin() -> Self {
        IS_SIMULATED.set(true);
        Self(())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        IS_SIMULATED.set(false);
    }
}

/// Declares that the code that follows may wait for a disk. Panics on the event loop in debug builds, and so
/// in tests; costs nothing in release builds.
#[track_caller]
pub fn may_block() {
    debug_assert!(
        !IS_EVENT_LOOP.get(),
        "BUG: the thread that serves all hosts touches files; use `event_loop::run_blocking`"
    );
}

/// Runs blocking work on a thread for such work.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match on_blocking_thread(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, so nobody needs the result.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Like `run_blocking`, but a panic of `work` does not propagate: `None` if it panicked.
pub async fn try_run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    on_blocking_thread(work).await.ok()
}

fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    if IS_SIMULATED.get() {
        return tokio::spawn(async move { run_here(work) });
    }
    match on_pool(&tokio::runtime::Handle::current(), work) {
        Ok(running) => running,
        // A user who may start no more threads needs an answer all the same. That it may wait for a disk is the lesser evil.
        Err(work) => tokio::spawn(async move { run_here(work) }),
    }
}

/// Gives the work back if no thread runs and the system refuses to create one.
fn on_pool<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    runtime: &tokio::runtime::Handle,
    work: W,
) -> Result<tokio::task::JoinHandle<T>, W> {
    // Whoever takes it runs it: `spawn_blocking` panics without a thread, after it has queued the work for a later one.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<W>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let queued = work.clone();
    let run = move || match take(&queued) {
        Some(work) => work(),
        // Nobody waits for it.
        None => resume_unwind(Box::new("it was run on another thread")),
    };
    IS_ASKING_FOR_A_THREAD.set(true);
    let started = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(run)));
    IS_ASKING_FOR_A_THREAD.set(false);
    started.map_err(|_| take(&work).expect("BUG: there is no thread that could have taken it"))
}

/// Runs blocking work whose result nobody needs: on this thread, unless it is the event loop. For use in
/// `Drop`, so it never panics: if the system cannot create a thread, the work is skipped.
pub fn run_blocking_detached(work: impl FnOnce() + Send + 'static) {
    if IS_SIMULATED.get() {
        run_here(work);
    } else if IS_EVENT_LOOP.get() {
        // Not `spawn_blocking`, which panics if no thread can be created.
        let _ = on_another_thread(std::thread::Builder::new(), work);
    } else {
        work();
    }
}

/// Runs a simulation's work on the serving thread, where it is allowed to touch files.
fn run_here<T>(work: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            IS_EVENT_LOOP.set(self.0);
        }
    }
    let _back = Back(IS_EVENT_LOOP.replace(false));
    work()
}

fn on_another_thread(thread: std::thread::Builder, work: impl FnOnce() + Send + 'static) -> bool {
    thread.name("aside".to_owned()).spawn(work).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_for_other_threads() {
        let serving = Serving::begin();
        assert!(std::panic::catch_unwind(may_block).is_err());
        run_blocking(may_block).await;
        let (done, was_done) = std::sync::mpsc::channel();
        run_blocking_detached(move || {
            may_block();
            let _ = done.send(());
        });
        was_done.recv().unwrap();
        drop(serving);
        may_block();
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_passed_on_only_where_that_is_wanted() {
        assert_eq!(try_run_blocking(|| 1).await, Some(1));
        assert_eq!(try_run_blocking(|| -> i32 { panic!("on purpose") }).await, None);
        let passed_on = tokio::spawn(run_blocking(|| panic!("on purpose"))).await;
        assert!(passed_on.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulation_has_one_thread_and_no_time_passes() {
        let (_simulation, _serving) = (Simulation::begin(), Serving::begin());
        let (here, begin) = (std::thread::current().id(), tokio::time::Instant::now());
        let work = move || {
            may_block();
            assert_eq!(std::thread::current().id(), here);
        };
        let other = tokio::time::sleep(std::time::Duration::from_millis(1));
        tokio::select! {
            biased;
            () = other => panic!("time passed"),
            () = run_blocking(work) => {}
        }
        run_blocking_detached(work);
        assert_eq!(begin.elapsed(), std::time::Duration::ZERO);
        assert!(std::panic::catch_unwind(may_block).is_err());
        assert_eq!(try_run_blocking(|| -> i32 { panic!("on purpose") }).await, None);
        assert!(std::panic::catch_unwind(may_block).is_err());
    }

    #[test]
    fn work_runs_on_this_thread_if_no_other_can_be_created() {
        let builder = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all();
            builder
        };
        // Too large a stack for any address space.
        let without_threads = builder().thread_stack_size(1 << 60).build().unwrap();
        let (serving, here) = (Serving::begin(), std::thread::current().id());
        let work = move || {
            may_block();
            std::thread::current().id() == here
        };
        assert!(without_threads.block_on(run_blocking(work)));
        assert_eq!(without_threads.block_on(try_run_blocking(work)), Some(true));
        assert!(!is_asking_for_a_thread());
        assert!(!builder().build().unwrap().block_on(run_blocking(work)));
        drop(serving);
    }

    #[test]
    fn work_is_skipped_if_no_thread_can_be_created() {
        // Too large a stack for any address space.
        let no_thread = std::thread::Builder::new().stack_size(1 << 60);
        assert!(!on_another_thread(no_thread, || panic!("it ran")));
    }
}
