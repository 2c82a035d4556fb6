//! A user with a home, a remote server defined in it, and a browser.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use proto_tests::authority::{AuthServer, PageVisit, ProtectedServer, Rules, browse};
use proto_tests::{Home, bins};
use serde_json::json;

/// The child that needs a login.
pub(crate) const CHILD: &str = "far";

pub(crate) struct OauthSetup {
    pub(crate) authority: Arc<AuthServer>,
    pub(crate) guarded: Arc<ProtectedServer>,
    // Dropped last, because it checks that all processes are gone.
    pub(crate) home: Home,
}

impl OauthSetup {
    pub(crate) fn new(rules: Rules) -> Self {
        let home = Home::new();
        // A test must not find the user's keyring.
        let profile = format!(
            "export PATH=/usr/local/bin:/usr/bin:/bin\nexport DBUS_SESSION_BUS_ADDRESS=unix:path={}/no-bus\n",
            home.mark()
        );
        home.write(".profile", &profile);
        let authority = AuthServer::start(rules);
        let guarded = ProtectedServer::start(&authority);
        home.definition(CHILD, &json!({"mcpServers": {CHILD: {"url": guarded.url()}}}).to_string());
        Self { authority, guarded, home }
    }

    /// Runs `switchboard login` up to the URL that it prints.
    #[track_caller]
    pub(crate) fn begin(&self) -> RunningCommand {
        let mut process = Command::new(&bins().switchboard)
            .args(["login", CHILD, "--no-browser"])
            .env_clear()
            .envs(self.home.environment())
            .env("SWITCHBOARD_SOCKET", self.home.socket())
            .current_dir(self.home.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let page = (&mut stdout).lines().map_while(Result::ok).find(|line| line.starts_with("http"));
        RunningCommand { process, stdout, page }
    }

    /// Completes a login.
    #[track_caller]
    pub(crate) fn log_in(&self) -> PageVisit {
        let typed = self.begin();
        let visit = browse(typed.page());
        assert_eq!(visit.status, 200, "{visit:?}");
        let (code, said) = typed.end();
        assert_eq!(code, Some(0), "{said}");
        visit
    }

    /// Tries to log in, and returns what the user is told.
    #[track_caller]
    pub(crate) fn fail_to_log_in(&self) -> String {
        let typed = self.begin();
        if let Some(page) = &typed.page {
            browse(page);
        }
        let (code, said) = typed.end();
        assert_eq!(code, Some(1), "{said}");
        said
    }
}

/// A command that waits for the user.
pub(crate) struct RunningCommand {
    process: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) page: Option<String>,
}

impl RunningCommand {
    #[track_caller]
    pub(crate) fn page(&self) -> &str {
        self.page.as_deref().expect("a page to open")
    }

    /// Its exit code, and everything it printed after the URL.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}
