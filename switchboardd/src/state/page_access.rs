//! Access for status pages in browsers: codes, bearers, and a limit on live feeds.
//!
//! `switchboard open` gets a code over the unix socket; the page exchanges it over TCP for a bearer with read
//! access. Codes are kept in memory only; bearers outlive the daemon (`page_bearers.rs`).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use switchboard_wire::secret;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use switchboard_wire::event_loop::may_block;
use switchboard_wire::random::hex;

pub use super::page_bearers::BEARER_LIFE;
use super::page_bearers::{self, PageBearers};

/// Long enough for a browser to start. No attempt limit: it would let any local user lock the owner out, and
/// 256-bit codes cannot be guessed in 30 s.
pub const CODE_LIFE: Duration = Duration::from_secs(30);
/// Limit of unused codes; the oldest is dropped.
const CODES: usize = 8;

/// Limit of live feeds; each costs a connection and time on the event loop.
pub const FEEDS: usize = 8;

const SECRET_BYTES: usize = 32;

/// The file that opens the page in a browser. The URL with the code is not passed on the command line,
/// because other users can see that.
pub fn link_file(state: &Path) -> PathBuf {
    state.join("open.html")
}

/// Removes the link file if it is at least this old.
pub fn remove_link_file(state: &Path, age: Duration) {
    may_block();
    let file = link_file(state);
    let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|elapsed| elapsed >= age);
    let modified = std::fs::symlink_metadata(&file).and_then(|meta| meta.modified());
    if modified.is_ok_and(|modified| age.is_zero() || is_old(modified)) {
        let _ = std::fs::remove_file(file);
    }
}

/// Ends the access of every page to a daemon that does not run.
pub fn remove_bearers(state: &Path) {
    may_block();
    let _ = std::fs::remove_file(page_bearers::bearers_file(state));
}

#[derive(Debug)]
pub struct PageAccess {
    /// The address for browsers, or why there is none.
    address: OnceLock<Result<SocketAddr, String>>,
    // Leaf locks: held for a lookup, an insert or a removal.
    codes: Mutex<IssuedSecrets>,
    bearers: Mutex<PageBearers>,
    /// The file that keeps them; unset if nothing is kept.
    // Held while the file is written; never taken on the event loop.
    file: Mutex<Option<PathBuf>>,
    feeds: Arc<Semaphore>,
    latest: Mutex<Option<(Instant, Bytes)>>,
}

impl Default for PageAccess {
    fn default() -> Self {
        Self {
            address: OnceLock::new(),
            codes: Mutex::new(IssuedSecrets::new(CODES, CODE_LIFE)),
            bearers: Mutex::default(),
            file: Mutex::default(),
            feeds: Arc::new(Semaphore::new(FEEDS)),
            latest: Mutex::default(),
        }
    }
}

impl PageAccess {
    /// Called once, when the daemon starts to listen.
    pub fn set_address(&self, way: Result<SocketAddr, String>) {
        let _ = self.address.set(way);
    }

    /// The URL of the page, with a new code.
    pub fn issue_link(&self) -> Result<String, String> {
        let nowhere = || Err("the daemon does not listen yet".to_owned());
        let address = self.address.get().cloned().unwrap_or_else(nowhere)?;
        let code = lock(&self.codes).issue();
        Ok(format!("http://{address}/#code={code}"))
    }

    /// Exchanges an unused code for a bearer.
    pub fn exchange(&self, code: &str) -> Option<String> {
        lock(&self.codes).take(code).then(|| lock(&self.bearers).issue())
    }

    pub fn is_valid_bearer(&self, bearer: &[u8]) -> bool {
        lock(&self.bearers).is_valid(bearer)
    }

    /// What shows a page that this is the daemon that let it in, or a later one of the same user. Another user may listen
    /// on the port after the daemon has ended, and must not be sent a bearer. `host` is in it, so that an answer cannot be
    /// fetched from the daemon on another port.
    pub fn proofs(&self, host: &str, nonce: &str) -> Vec<String> {
        lock(&self.bearers).proofs(&host.to_ascii_lowercase(), nonce)
    }

    /// Takes over the bearers of earlier daemons, and keeps those issued from now on for later ones.
    pub fn restore(&self, state: &Path) {
        let file = page_bearers::bearers_file(state);
        lock(&self.bearers).read(&file);
        *lock(&self.file) = Some(file);
    }

    /// Writes the bearers to their file.
    pub fn store(&self) {
        if let Some(file) = &*lock(&self.file) {
            let stored = lock(&self.bearers).stored();
            page_bearers::write(file, &stored);
        }
    }

    /// Ends the access of every page, also of one that is just being opened.
    pub fn revoke(&self) {
        lock(&self.codes).issued.clear();
        lock(&self.bearers).clear();
        self.store();
    }

    /// A live feed; `None` if the limit is reached.
    pub fn feed(self: &Arc<Self>) -> Option<StatusFeed> {
        let place = self.feeds.clone().try_acquire_owned().ok()?;
        Some(StatusFeed { access: self.clone(), _place: place })
    }
}

/// The live feed of one page.
#[derive(Debug)]
pub struct StatusFeed {
    access: Arc<PageAccess>,
    _place: OwnedSemaphorePermit,
}

impl StatusFeed {
    /// The current status. Feeds that ask within `share` of each other get the same snapshot.
    pub fn latest(&self, share: Duration, make: impl FnOnce() -> String) -> Bytes {
        let mut latest = lock(&self.access.latest);
        if let Some((_, body)) = latest.as_ref().filter(|(made, _)| made.elapsed() < share) {
            return body.clone();
        }
        let body = Bytes::from(make());
        *latest = Some((Instant::now(), body.clone()));
        body
    }
}

impl Drop for StatusFeed {
    fn drop(&mut self) {
        // This feed's own permit is not released yet.
        if self.access.feeds.available_permits() + 1 == FEEDS {
            *lock(&self.access.latest) = None;
        }
    }
}

/// Issued secrets, oldest first.
#[derive(Debug)]
struct IssuedSecrets {
    issued: VecDeque<(String, Instant)>,
    limit: usize,
    life: Duration,
}

impl IssuedSecrets {
    fn new(most: usize, life: Duration) -> Self {
        Self { issued: VecDeque::new(), limit: most, life }
    }

    fn issue(&mut self) -> String {
        self.forget_old();
        if self.issued.len() == self.limit {
            self.issued.pop_front();
        }
        let secret = hex(SECRET_BYTES);
        self.issued.push_back((secret.clone(), Instant::now() + self.life));
        secret
    }

    /// True once for each issued secret.
    fn take(&mut self, secret: &str) -> bool {
        let found = self.find(secret.as_bytes());
        found.is_some_and(|at| self.issued.remove(at).is_some())
    }

    /// Compares with all of them, so that the time does not reveal which one matched.
    fn find(&mut self, secret: &[u8]) -> Option<usize> {
        self.forget_old();
        let each = self.issued.iter().enumerate();
        each.fold(
            None,
            |found, (at, (known, _))| {
                if secret::is_same(secret, known.as_bytes()) { Some(at) } else { found }
            },
        )
    }

    fn forget_old(&mut self) {
        let now = Instant::now();
        self.issued.retain(|(_, until)| *until > now);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("BUG: bookkeeping panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Arc<PageAccess> {
        let pages = Arc::new(PageAccess::default());
        pages.set_address(Ok("127.0.0.1:7420".parse().unwrap()));
        pages
    }

    #[test]
    fn an_old_link_file_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let file = link_file(state.path());
        remove_link_file(state.path(), Duration::ZERO);
        std::fs::write(&file, "").unwrap();
        remove_link_file(state.path(), CODE_LIFE);
        assert!(file.exists(), "somebody else's, and newer");
        let then = SystemTime::now() - CODE_LIFE;
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(then).unwrap();
        remove_link_file(state.path(), CODE_LIFE);
        assert!(!file.exists());
    }

    fn code(pages: &PageAccess) -> String {
        let url = pages.issue_link().unwrap();
        let code = url.strip_prefix("http://127.0.0.1:7420/#code=").unwrap();
        assert_eq!(code.len(), 2 * SECRET_BYTES);
        code.to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_is_valid_once_and_expires() {
        let pages = pages();
        let (first, second, third) = (code(&pages), code(&pages), code(&pages));
        let bearer = pages.exchange(&second).unwrap();
        assert!(pages.is_valid_bearer(bearer.as_bytes()));
        for wrong in ["", &second, &first[1..], &format!("{first}0"), &bearer, &"0".repeat(64)] {
            assert_eq!(pages.exchange(wrong), None, "{wrong}");
        }
        tokio::time::sleep(CODE_LIFE - Duration::from_millis(1)).await;
        assert!(pages.exchange(&first).is_some());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(pages.exchange(&third), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_was_issued_survives_a_revocation() {
        let pages = pages();
        let (unused, used) = (code(&pages), code(&pages));
        let bearer = pages.exchange(&used).unwrap();
        pages.revoke();
        assert!(!pages.is_valid_bearer(bearer.as_bytes()));
        assert_eq!(pages.exchange(&unused), None);
        assert!(pages.exchange(&code(&pages)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bearer_expires() {
        let pages = pages();
        let bearer = pages.exchange(&code(&pages)).unwrap();
        tokio::time::sleep(BEARER_LIFE - Duration::from_millis(1)).await;
        assert!(pages.is_valid_bearer(bearer.as_bytes()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!pages.is_valid_bearer(bearer.as_bytes()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_secret_is_dropped_above_the_limit() {
        let pages = pages();
        let codes: Vec<_> = (0..=CODES).map(|_| code(&pages)).collect();
        assert_eq!(pages.exchange(&codes[0]), None);
        assert!(codes[1..].iter().all(|code| pages.exchange(code).is_some()));
        let bearers: Vec<_> =
            (0..=page_bearers::BEARERS).map(|_| pages.exchange(&code(&pages)).unwrap()).collect();
        assert!(!pages.is_valid_bearer(bearers[0].as_bytes()));
        assert!(bearers[1..].iter().all(|bearer| pages.is_valid_bearer(bearer.as_bytes())));
    }

    #[tokio::test(start_paused = true)]
    async fn feeds_share_a_snapshot_and_free_it() {
        let pages = pages();
        let mut feeds: Vec<_> = (0..FEEDS).map(|_| pages.feed().unwrap()).collect();
        assert!(pages.feed().is_none());
        let share = Duration::from_millis(50);
        assert_eq!(feeds[0].latest(share, || "one".to_owned()), "one");
        assert_eq!(feeds[1].latest(share, || "two".to_owned()), "one");
        tokio::time::sleep(share).await;
        assert_eq!(feeds[1].latest(share, || "two".to_owned()), "two");
        feeds.truncate(1);
        assert!(lock(&pages.latest).is_some() && pages.feed().is_some());
        feeds.clear();
        assert!(lock(&pages.latest).is_none());
    }
}
