//! Lets modules below the `Reloader` ask it for a reload.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Reloads all files.
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
    /// Sets the reloader that [`Self::reload`] uses.
    pub fn set_reloader(&self, reloader: Weak<dyn Reload>) {
        let _ = self.reloader.set(reloader);
    }

    /// Notified when a file may have changed.
    pub fn changed_handle(&self) -> &Arc<Notify> {
        &self.changed
    }

    /// Call this when a file may have changed: all files are reloaded soon.
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

    /// Reloads all files now; resolves when that is done.
    pub async fn reload(&self) {
        if let Some(reloader) = self.reloader.get().and_then(Weak::upgrade) {
            reloader.reload_files().await;
        }
    }
}
