//! Resolves the values for `${…}`: from secrets, then the user's env file, then the login shell. Never from
//! the environment of the host that started the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use switchboard_definitions::definition::{
    Launch, LaunchCommand, Remote, ResolvedCommand, ResolvedLaunch, ResolvedRemote,
};
use switchboard_definitions::expand::{MissingVariable, PlaceholderValues, Template};
use switchboard_definitions::trust::view::{ValueSource, ValueSources};
use switchboard_wire::event_loop::run_blocking;

use crate::child::program;
use crate::child::remote::{address, is_loopback};
use crate::system::environment::{LoginShell, ShellEnvironment};
use crate::system::secrets::{SecretLocation, Secrets};

/// Why a launch cannot be carried out. The messages continue "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLaunchable {
    #[error("is misconfigured: {0}")]
    Misconfigured(String),
    /// For a definition whose program was allowed.
    #[error("is misconfigured: {0}")]
    NoProgram(String),
    #[error(
        "is held: its program is now `{found}`, and `{allowed}` was allowed; run `switchboard allow` to allow it"
    )]
    Held { found: String, allowed: String },
}

/// Where a value comes from, without the value itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Keyring,
    /// Where secrets are stored if there is no keyring.
    PrivateFile,
    EnvFile(PathBuf),
    Shell,
    Nowhere,
    /// Why the origin cannot be determined.
    Unknown(String),
}

#[derive(Debug)]
pub struct ValueResolver {
    shell: LoginShell,
    secrets: Secrets,
    /// Files whose change may change a value.
    files: [PathBuf; 2],
    /// The TCP port that the daemon itself serves.
    own_port: OnceLock<u16>,
}

impl ValueResolver {
    /// `folder`: the folder of the user's own config.
    pub fn new(folder: &Path, state: &Path) -> Self {
        let files = [folder.join("env"), state.join("secrets/secrets.json")];
        Self { shell: LoginShell::default(), secrets: Secrets::new(state), files, own_port: OnceLock::new() }
    }

    /// The daemon's own port, where no remote child may be.
    pub fn set_own_port(&self, port: u16) {
        let _ = self.own_port.set(port);
    }

    /// Uses `all` as the environment of children; no login shell is asked.
    pub fn fix_environment(&self, all: BTreeMap<String, String>) {
        self.shell.fix(all);
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub async fn shell_environment(&self) -> Arc<ShellEnvironment> {
        self.shell.environment().await
    }

    /// Whether the login shell has answered.
    pub fn has_shell(&self) -> bool {
        self.shell.is_known()
    }

    /// Resolves when the login shell answers after a start went on without it: missing values may be
    /// available now.
    pub async fn wait_late_shell(&self) {
        self.shell.wait_late_answer().await;
    }

    /// Has the next lookup query the login shell again, since the user may have changed their profile.
    pub fn forget_shell(&self) {
        self.shell.forget();
    }

    /// Fills all placeholders of a launch; or why it cannot be carried out.
    pub async fn fill(&self, launch: &Launch) -> Result<ResolvedLaunch, NotLaunchable> {
        match launch {
            Launch::Process(launch) => self.fill_launch(launch).await.map(ResolvedLaunch::Process),
            Launch::Remote(remote) => {
                let values =
                    self.values(&remote.placeholders()).await.map_err(NotLaunchable::Misconfigured)?;
                let filled = remote
                    .fill(&values)
                    .map_err(|missing| NotLaunchable::Misconfigured(describe_missing(&missing)))?;
                self.check_not_self(&filled)?;
                Ok(ResolvedLaunch::Remote(filled))
            }
        }
    }

    async fn fill_launch(&self, launch: &LaunchCommand) -> Result<ResolvedCommand, NotLaunchable> {
        let misconfigured = NotLaunchable::Misconfigured;
        let values = self.values(&launch.placeholders()).await.map_err(misconfigured)?;
        let filled = launch.fill(&values).map_err(|missing| misconfigured(describe_missing(&missing)))?;
        if let Some(allowed) = &launch.program {
            self.compare(&filled, allowed).await?;
        }
        Ok(filled)
    }

    /// Fills all placeholders of a text; or what is missing.
    pub async fn text(&self, template: &Template) -> Result<String, String> {
        let names = template.placeholders().map(|(name, _)| name.to_owned()).collect();
        let values = self.values(&names).await?;
        let mut missing = BTreeSet::new();
        let text = template.fill(&values, &mut missing);
        if missing.is_empty() { Ok(text) } else { Err(describe_missing(&missing)) }
    }

    /// Checks that the program that would run is the one that was allowed.
    async fn compare(&self, filled: &ResolvedCommand, allowed: &Path) -> Result<(), NotLaunchable> {
        let found = self.program(filled).await.map_err(NotLaunchable::NoProgram)?;
        if found == *allowed {
            return Ok(());
        }
        Err(NotLaunchable::Held {
            found: found.display().to_string(),
            allowed: allowed.display().to_string(),
        })
    }

    async fn listed(&self) -> Result<BTreeSet<String>, String> {
        Ok(self.secrets.list_async().await.map_err(|error| error.to_string())?.into_keys().collect())
    }

    /// The user's env file.
    async fn personal(&self) -> Result<Option<BTreeMap<String, String>>, String> {
        let file = self.files[0].clone();
        run_blocking(move || switchboard_definitions::env_file::read_private(&file)).await
    }

    /// Checks that everything a child needs is set, as far as that is known without asking the keyring.
    pub async fn is_set(&self, launch: &Launch) -> Result<(), NotLaunchable> {
        let values = self.known_values(launch.placeholders()).await?;
        match launch {
            Launch::Process(launch) => self.is_set_for(launch, &values).await,
            Launch::Remote(remote) => self.is_set_for_remote(remote, &values),
        }
    }

    fn is_set_for_remote(&self, remote: &Remote, values: &PlaceholderValues) -> Result<(), NotLaunchable> {
        let filled = remote
            .fill(values)
            .map_err(|missing| NotLaunchable::Misconfigured(describe_missing(&missing)))?;
        // If the URL depends on values, it is checked when the child starts.
        if remote.url.placeholders().next().is_some() {
            return Ok(());
        }
        self.check_not_self(&filled)
    }

    /// Checks that messages may be sent there. Not to ourselves, for the same reason that we do not start
    /// ourselves.
    fn check_not_self(&self, to: &ResolvedRemote) -> Result<(), NotLaunchable> {
        let url = address(to).map_err(NotLaunchable::Misconfigured)?;
        if is_loopback(&url) && url.port_or_known_default() == self.own_port.get().copied() {
            return Err(NotLaunchable::Misconfigured(
                "`url` is Switchboard's own address, which would call itself without end; name the server itself"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// The values of these names, with secrets left empty.
    async fn known_values(&self, mut names: BTreeSet<String>) -> Result<PlaceholderValues, NotLaunchable> {
        let in_secrets = self.listed().await.map_err(NotLaunchable::Misconfigured)?;
        let known: Vec<String> = names.iter().filter(|name| in_secrets.contains(*name)).cloned().collect();
        names.retain(|name| !in_secrets.contains(name));
        let mut values = self.values(&names).await.map_err(NotLaunchable::Misconfigured)?;
        values.extend(known.into_iter().map(|name| (name, String::new())));
        Ok(values)
    }

    async fn is_set_for(
        &self,
        launch: &LaunchCommand,
        values: &PlaceholderValues,
    ) -> Result<(), NotLaunchable> {
        let filled = launch
            .fill(values)
            .map_err(|missing| NotLaunchable::Misconfigured(describe_missing(&missing)))?;
        // If the program depends on values, it is compared when the child starts.
        let decides =
            [&launch.cmd, &launch.cwd].into_iter().any(|template| template.placeholders().next().is_some());
        match &launch.program {
            Some(allowed) if !decides => self.compare(&filled, allowed).await,
            _ => Ok(()),
        }
    }

    /// The program that would run for a launch, to show to the user.
    pub async fn find_program(&self, launch: &LaunchCommand) -> Result<PathBuf, String> {
        // Only the values that decide the program are needed.
        let only = LaunchCommand {
            args: Vec::new(),
            env: launch
                .env
                .iter()
                .filter(|(name, _)| *name == "PATH")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            program: None,
            ..launch.clone()
        };
        let values = self.values(&only.placeholders()).await?;
        let filled = only.fill(&values).map_err(|missing| describe_missing(&missing))?;
        let program = self.program(&filled).await?;
        let found = program.clone();
        if run_blocking(move || found.is_file()).await {
            Ok(program)
        } else {
            Err(format!("`{}` does not exist", filled.shown(&program)))
        }
    }

    /// If the definition gives a path or sets `PATH`, links are resolved: the target is part of what is
    /// allowed, and could change without approval.
    async fn program(&self, filled: &ResolvedCommand) -> Result<PathBuf, String> {
        let filled = filled.clone();
        // A path needs no `PATH`.
        let shell_environment = match filled.cmd.contains('/') {
            true => None,
            false => Some(self.shell.environment().await),
        };
        run_blocking(move || {
            let found = match &shell_environment {
                Some(shell_environment) => program(&filled, &shell_environment.variables)?,
                None => filled.cwd.join(&filled.cmd),
            };
            let is_its_own = filled.cmd.contains('/') || filled.env.contains_key("PATH");
            Ok(if is_its_own { found.canonicalize().unwrap_or(found) } else { found })
        })
        .await
    }

    /// Where each value of the user would come from. One with a default is never missing.
    pub async fn origins(&self, launch: &Launch) -> Vec<(String, Origin)> {
        let names = launch.placeholders();
        if names.is_empty() {
            return Vec::new();
        }
        let secrets = self.secrets.list_async().await;
        let personal = self.personal().await;
        let shell_environment = self.shell.environment().await;
        let missing: BTreeSet<String> = match launch {
            Launch::Process(launch) => launch.fill(&PlaceholderValues::new()).err().unwrap_or_default(),
            Launch::Remote(remote) => remote.fill(&PlaceholderValues::new()).err().unwrap_or_default(),
        }
        .into_iter()
        .map(|missing| missing.name)
        .collect();
        let one = |name: String| {
            let secret = secrets.as_ref().map(|list| list.get(&name)).map_err(ToString::to_string);
            let of_file =
                personal.as_ref().map(|file| file.as_ref().is_some_and(|file| file.contains_key(&name)));
            let origin = match (secret, of_file) {
                (Ok(Some(SecretLocation::Keyring)), _) => Origin::Keyring,
                (Ok(Some(SecretLocation::File)), _) => Origin::PrivateFile,
                (Err(why), _) => Origin::Unknown(why),
                (_, Err(why)) => Origin::Unknown(why.clone()),
                (_, Ok(true)) => Origin::EnvFile(self.files[0].clone()),
                _ if shell_environment.all.contains_key(&name) => Origin::Shell,
                _ if missing.contains(&name) => Origin::Nowhere,
                _ => return None,
            };
            Some((name, origin))
        };
        names.into_iter().filter_map(one).collect()
    }

    /// Where each value would come from, for the user who is asked about the launch.
    pub async fn given(&self, launch: &Launch) -> ValueSources {
        let giver = |origin: Origin| match origin {
            Origin::Keyring | Origin::PrivateFile => Some(ValueSource::Secret),
            Origin::EnvFile(_) => Some(ValueSource::EnvFile),
            Origin::Shell => Some(ValueSource::Shell),
            Origin::Nowhere => Some(ValueSource::Nowhere),
            Origin::Unknown(_) => None,
        };
        let origins = self.origins(launch).await;
        // A passed-on variable is never missing, but may be unset.
        let passed = match launch {
            Launch::Process(launch) => launch.pass_env.clone(),
            Launch::Remote(_) => BTreeSet::new(),
        };
        let unset = passed.into_iter().filter(|name| !origins.iter().any(|(known, _)| known == name));
        let mut given: ValueSources = unset.map(|name| (name, ValueSource::Nowhere)).collect();
        given.extend(origins.into_iter().filter_map(|(name, origin)| Some((name, giver(origin)?))));
        given
    }

    /// The values of those names that are set.
    async fn values(&self, names: &BTreeSet<String>) -> Result<PlaceholderValues, String> {
        let mut values = PlaceholderValues::new();
        if names.is_empty() {
            return Ok(values);
        }
        let wanted: Vec<String> = names.iter().cloned().collect();
        if self.listed().await?.iter().any(|name| names.contains(name)) {
            let shell_environment = self.shell.environment().await;
            values = self
                .secrets
                .values(&wanted, &shell_environment.variables)
                .await
                .map_err(|error| error.to_string())?;
        }
        let personal = self.personal().await?.unwrap_or_default();
        for (name, value) in personal {
            if names.contains(&name) {
                values.entry(name).or_insert(value);
            }
        }
        if names.iter().any(|name| !values.contains_key(name)) {
            let shell_environment = self.shell.environment().await;
            for name in names {
                if let (false, Some(value)) = (values.contains_key(name), shell_environment.all.get(name)) {
                    values.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(values)
    }
}

/// `missing X`, and how to set it.
fn describe_missing(missing: &BTreeSet<MissingVariable>) -> String {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let first = missing.first().map_or("NAME", |missing| missing.name.as_str());
    format!("missing {}; set it with `switchboard secret set {first}`", names.join(", "))
}
