//! All children with one launch key: started when first wanted, once for everybody who waits, and
//! given back by dropping the lease.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::child::{Child, ChildError, Limits, Roster};
use crate::definition::Launch;
use crate::environment::LoginShell;

/// The first start through one of these may download the server.
const PACKAGE_RUNNERS: [&str; 9] =
    ["npx", "uvx", "pipx", "bunx", "pnpm", "yarn", "docker", "podman", "cargo"];
const PACKAGE_RUNNER_SPAWN: Duration = Duration::from_secs(120);

/// How long after a start those who waited for it may take to lease the child.
const LATE_LEASES: Duration = Duration::from_secs(1);

/// What children need to be started with, whichever they are.
#[derive(Debug, Clone)]
pub struct Nursery {
    pub shell: Arc<LoginShell>,
    pub roster: Arc<Roster>,
}

#[derive(Debug)]
pub struct Pool {
    name: Box<str>,
    launch: Launch,
    nursery: Nursery,
    // A leaf lock: held to look at or change the state, never across a start.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Its definition is gone: a child that comes up now serves those who wait for it and goes.
    retired: bool,
    ran_before: bool,
    last_error: Option<ChildError>,
}

type Started = Option<Result<Arc<Child>, ChildError>>;

#[derive(Debug)]
enum Stage {
    Cold,
    Starting(watch::Receiver<Started>),
    Up(Arc<Child>),
}

/// How a pool is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Cold,
    Starting,
    Ready,
    Failed,
}

/// The right to use a child. Dropping it gives the child back.
#[derive(Debug)]
pub struct Lease {
    child: Arc<Child>,
}

impl std::ops::Deref for Lease {
    type Target = Arc<Child>;

    fn deref(&self) -> &Arc<Child> {
        &self.child
    }
}

impl Lease {
    fn of(child: &Arc<Child>) -> Self {
        child.leased(1);
        Self { child: child.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.child.leased(-1);
    }
}

impl Pool {
    pub fn new(name: &str, launch: Launch, nursery: Nursery) -> Arc<Self> {
        let state = State { stage: Stage::Cold, retired: false, ran_before: false, last_error: None };
        Arc::new(Self { name: name.into(), launch, nursery, state: Mutex::new(state) })
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// A child to use, started if none runs. The start goes on even if this caller gives up.
    pub async fn lease(self: &Arc<Self>, limits: Limits) -> Result<Lease, ChildError> {
        let mut starting = {
            let mut state = self.lock();
            if let Stage::Up(child) = &state.stage
                && child.is_alive()
            {
                return Ok(Lease::of(child));
            }
            match &state.stage {
                Stage::Starting(started) => started.clone(),
                _ => {
                    let (tell, started) = watch::channel(None);
                    state.stage = Stage::Starting(started.clone());
                    let limits = self.patience(limits, state.ran_before);
                    tokio::spawn(self.clone().start(limits, tell));
                    started
                }
            }
        };
        let started = starting.wait_for(Option::is_some).await;
        let child = match started.as_deref() {
            Ok(Some(result)) => result.clone()?,
            // The starting task panicked or the daemon is going down.
            _ => return Err(ChildError::Stopped),
        };
        Ok(Lease::of(&child))
    }

    async fn start(self: Arc<Self>, limits: Limits, tell: watch::Sender<Started>) {
        let variables = self.nursery.shell.variables().await;
        let started = Child::start(&self.name, &self.launch, variables, limits, &self.nursery.roster).await;
        {
            let mut state = self.lock();
            match &started {
                Ok(child) => {
                    state.stage = Stage::Up(child.clone());
                    state.ran_before = true;
                    state.last_error = None;
                }
                Err(error) => {
                    tracing::warn!(target: "pool", child = &*self.name, "{error}");
                    state.stage = Stage::Cold;
                    state.last_error = Some(error.clone());
                }
            }
        }
        let retired = self.lock().retired;
        tell.send_replace(Some(started));
        if retired {
            // Those who waited take their leases first.
            tokio::time::sleep(LATE_LEASES).await;
            self.renew();
        }
    }

    fn patience(&self, limits: Limits, ran_before: bool) -> Limits {
        let program = self.launch.cmd.rsplit('/').next().unwrap_or_default();
        if ran_before || !PACKAGE_RUNNERS.contains(&program) {
            return limits;
        }
        Limits { spawn: limits.spawn.max(PACKAGE_RUNNER_SPAWN), ..limits }
    }

    /// No longer wanted: calls in flight finish, then its child stops.
    pub fn retire(&self) {
        self.lock().retired = true;
        self.renew();
    }

    /// Has the next caller get a fresh child; calls in flight finish on the old one. False if none ran.
    pub fn renew(&self) -> bool {
        let mut state = self.lock();
        let Stage::Up(child) = &state.stage else { return false };
        let child = child.clone();
        state.stage = Stage::Cold;
        tokio::spawn(async move {
            child.idle().await;
            child.stop();
        });
        true
    }

    /// What the child that runs, or ran last, wrote to its standard error.
    pub fn stderr_lines(&self) -> Vec<Box<str>> {
        match &self.lock().stage {
            Stage::Up(child) => child.stderr().lines(),
            _ => Vec::new(),
        }
    }

    /// The child, if one runs right now.
    pub fn running(&self) -> Option<Arc<Child>> {
        match &self.lock().stage {
            Stage::Up(child) if child.is_alive() => Some(child.clone()),
            _ => None,
        }
    }

    pub fn doing(&self) -> Doing {
        let state = self.lock();
        match &state.stage {
            Stage::Up(child) if child.is_alive() => Doing::Ready,
            Stage::Starting(_) => Doing::Starting,
            _ if self.error_of(&state).is_some() => Doing::Failed,
            _ => Doing::Cold,
        }
    }

    /// Why the last child ended, or could not be started.
    pub fn last_error(&self) -> Option<ChildError> {
        self.error_of(&self.lock())
    }

    fn error_of(&self, state: &State) -> Option<ChildError> {
        match &state.stage {
            Stage::Up(child) if !child.is_alive() => Some(child.why_ended()),
            _ => state.last_error.clone(),
        }
        .filter(|error| *error != ChildError::Stopped)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: pool bookkeeping panicked")
    }
}
