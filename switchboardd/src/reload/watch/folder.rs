//! Watches one folder, for a command that waits for changes.

use std::io;
use std::path::Path;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

pub struct Folder {
    changes: mpsc::Receiver<()>,
    // Stops watching when dropped.
    _watcher: notify::RecommendedWatcher,
}

impl Folder {
    pub fn watch(folder: &Path) -> io::Result<Self> {
        // One pending signal is enough: the receiver checks everything.
        let (tell, changes) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |_| {
            let _ = tell.try_send(());
        })
        .map_err(io::Error::other)?;
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(io::Error::other)?;
        Ok(Self { changes, _watcher: watcher })
    }

    /// Resolves when something in the folder has changed since the last call.
    pub async fn next(&mut self) {
        self.changes.recv().await;
    }
}
