//! Changes in one folder, for a command that waits for them.

use std::io;
use std::path::Path;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

pub struct Folder {
    changes: mpsc::Receiver<()>,
    // Ends the watching when it goes.
    _watcher: notify::RecommendedWatcher,
}

impl Folder {
    pub fn watch(folder: &Path) -> io::Result<Self> {
        // One is as good as many: whoever hears of it looks at everything.
        let (tell, changes) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |_| {
            let _ = tell.try_send(());
        })
        .map_err(io::Error::other)?;
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(io::Error::other)?;
        Ok(Self { changes, _watcher: watcher })
    }

    /// Resolves when something in it has changed since this last did.
    pub async fn next(&mut self) {
        self.changes.recv().await;
    }
}
