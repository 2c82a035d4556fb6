//! How those ask for a reload who do not reload themselves. The `Reloader` stands above this module.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Reads all files again.
pub trait Reload: Debug + Send + Sync {
    fn reload_files(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

#[derive(Debug, Default)]
pub struct ReloadRequests {
    /// A file may have changed.
    changed: Arc<Notify>,
    /// A workspace was evicted: its folders need not be watched any more.
    evicted: Notify,
    reloader: OnceLock<Weak<dyn Reload>>,
}

impl ReloadRequests {
    /// From now on `reloader` reloads.
    pub fn set_reloader(&self, reloader: Weak<dyn Reload>) {
        let _ = self.reloader.set(reloader);
    }

    /// What is notified when a file may have changed.
    pub fn changed_handle(&self) -> &Arc<Notify> {
        &self.changed
    }

    /// A file may have changed: all files are read again, in a moment.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub fn notify_evicted(&self) {
        self.evicted.notify_one();
    }

    pub fn evicted(&self) -> Notified<'_> {
        self.evicted.notified()
    }

    /// Has all files read again, at once; resolves when that is done.
    pub async fn reload(&self) {
        if let Some(reloader) = self.reloader.get().and_then(Weak::upgrade) {
            reloader.reload_files().await;
        }
    }
}
