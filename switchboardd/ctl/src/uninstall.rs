//! `switchboard uninstall`: undoes `setup`, `import --remove` and `service install`, stops the daemon, and says what is
//! left. With `--purge` it deletes that, too.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_hosts::record::HostFileRecords;
use switchboard_wire::printable;

use super::CliExit;
use super::output::{complain, count, failed, indented, print_json, remark, say, set_quiet, tilde};
use super::secret::own_variables;
use super::shell_word::shell_word;
use super::{prompt, service, setup, start};
use crate::args::{Args, HostSelection, Service, Undo, Uninstall};
use switchboardd::daemon;
use switchboardd::secrets::{SecretLocation, Secrets};

/// What there is to take away.
struct Traces {
    /// Files of editors that start Switchboard.
    host_files: Vec<PathBuf>,
    is_service: bool,
    pid: Option<u64>,
    /// The usual folders for the user's definitions and our state, as far as they exist.
    folders: Vec<PathBuf>,
    /// A config file and a state folder elsewhere. Other files of the user may be next to them, so `--purge` leaves them.
    kept: Vec<PathBuf>,
    /// Names of secrets that are in the keyring; those in a file are in a folder above.
    in_keyring: Vec<String>,
    secrets: Secrets,
}

impl Traces {
    fn find(args: &Args) -> Result<Self, CliExit> {
        let home = daemon::home().map_err(|fatal| failed(&fatal))?;
        let paths = daemon::runtime_paths_in_use(&args.of_daemon(), &home);
        let (config, state) = daemon::files_in_use(&args.of_daemon(), &home);
        let (records, problems) = HostFileRecords::peek(&state).all();
        problems.iter().for_each(|problem| remark!("switchboard: {}", indented(problem)));
        let secrets = Secrets::new(&state);
        let in_keyring = secrets.list().map_err(|error| failed(&error))?;
        let in_keyring = in_keyring
            .into_iter()
            .filter(|(_, place)| *place == SecretLocation::Keyring)
            .map(|(name, _)| name);
        let (usual_config, usual_state) = daemon::usual_folders(&home);
        let locks = switchboard_wire::runtime_paths::state_directory(&home);
        let mut folders: Vec<PathBuf> = Vec::new();
        // Whoever names a config means that one.
        let usual_config = args.config.is_none().then_some(usual_config);
        for folder in usual_config.into_iter().chain([usual_state, locks]) {
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        let is_usual = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        let kept = [config, state].into_iter().filter(|path| path.exists() && !is_usual(path)).collect();
        Ok(Self {
            host_files: records.into_iter().map(|record| record.file).collect(),
            is_service: service::has_units(&home),
            pid: daemon::running(&paths).and_then(|told| told["pid"].as_u64()),
            folders,
            kept,
            in_keyring: in_keyring.collect(),
            secrets,
        })
    }

    /// What `--purge` leaves because it may be among other files of the user.
    fn kept_by(&self, wish: &Uninstall) -> impl Iterator<Item = &PathBuf> {
        self.kept.iter().filter(|_| wish.purge)
    }

    /// What will be done, in its order.
    fn steps(&self, purge: bool) -> Vec<String> {
        let mut steps: Vec<String> = Vec::new();
        for file in &self.host_files {
            steps.push(format!("take Switchboard out of {}", shown(file)));
        }
        if self.is_service {
            steps.push("remove the service".to_owned());
        }
        if let Some(pid) = self.pid {
            steps.push(format!("stop switchboardd (pid {pid})"));
        }
        if purge {
            if !self.in_keyring.is_empty() {
                steps.push(format!(
                    "delete {} from the keyring: {}",
                    count(self.in_keyring.len(), "secret"),
                    self.in_keyring.join(", ")
                ));
            }
            steps.extend(self.folders.iter().map(|folder| format!("delete {}", shown(folder))));
        }
        steps
    }
}

fn shown(path: &Path) -> String {
    tilde(&path.display().to_string())
}

/// The socket of another daemon of the user, whose folders these are, too.
fn other_daemon(args: &Args, home: &Path) -> Option<PathBuf> {
    let of_user = daemon::runtime_paths_in_use(&args.of_user(), home);
    let named = daemon::runtime_paths_in_use(&args.of_daemon(), home);
    let is_other = of_user.daemon_file != named.daemon_file && daemon::running(&of_user).is_some();
    is_other.then_some(of_user.socket)
}

pub(super) async fn run(args: &Args, wish: &Uninstall) -> CliExit {
    if wish.purge
        && let Ok(home) = daemon::home()
        && let Some(socket) = other_daemon(args, &home)
    {
        return failed(&format!(
            "another switchboardd of yours serves {} and uses the folders that `--purge` deletes; nothing was changed. Run `switchboard uninstall --purge` without `--socket` and SWITCHBOARD_SOCKET",
            shown(&socket)
        ));
    }
    let traces = match Traces::find(args) {
        Ok(traces) => traces,
        Err(exit) => return exit,
    };
    let steps = traces.steps(wish.purge);
    if !args.json {
        match steps.is_empty() {
            true => say!("nothing of Switchboard is set up, and no switchboardd is running"),
            false => say!("this will:"),
        }
        steps.iter().for_each(|step| say!("  {step}"));
    }
    if !wish.dry_run && !steps.is_empty() {
        match is_agreed(args, wish) {
            Ok(true) => {}
            Ok(false) => {
                say!("nothing was changed");
                return CliExit::Ok;
            }
            Err(exit) => return exit,
        }
        set_quiet(args.json);
        let exit = take_away(args, wish, &traces).await;
        set_quiet(false);
        if !matches!(exit, CliExit::Ok) {
            return exit;
        }
    }
    let left: Vec<&PathBuf> =
        traces.folders.iter().filter(|folder| !wish.purge && !wish.dry_run && folder.is_dir()).collect();
    if args.json {
        let left: Vec<&PathBuf> = left.into_iter().chain(traces.kept_by(wish)).collect();
        print_json(&json!({ "dryRun": wish.dry_run, "steps": steps, "left": left }));
    } else {
        if !wish.dry_run {
            tell_left(&traces, &left, wish.purge);
        }
        for path in traces.kept_by(wish) {
            say!("{} is not in Switchboard's own folder and stays; delete it yourself", shown(path));
        }
    }
    CliExit::Ok
}

fn is_agreed(args: &Args, wish: &Uninstall) -> Result<bool, CliExit> {
    if wish.yes {
        return Ok(true);
    }
    if args.json || !std::io::stdin().is_terminal() {
        complain(
            &"not a terminal, so you can't be asked: use `--yes`, or `--dry-run` to see what would be done",
        );
        return Err(CliExit::Usage);
    }
    let what =
        if wish.purge { "do this, and delete your servers and secrets permanently" } else { "do this" };
    Ok(prompt::yes(&printable!("{what}? [y/N] ")))
}

async fn take_away(args: &Args, wish: &Uninstall, traces: &Traces) -> CliExit {
    // The parts report in words; as JSON there is one answer, at the end.
    let quiet = Args { json: false, ..args.clone() };
    if !traces.host_files.is_empty() {
        let which = HostSelection { host: Vec::new(), dry_run: false, yes: true };
        let undone = setup::undo(&quiet, &Undo { which });
        if !matches!(undone, CliExit::Ok) {
            complain(
                &"some editors still start Switchboard, so nothing else was removed; fix that and run it again",
            );
            return undone;
        }
    }
    if traces.is_service {
        let removed = service::run(&quiet, Service::Remove { dry_run: false }).await;
        if !matches!(removed, CliExit::Ok) {
            return removed;
        }
    }
    let stopped = start::stop(&quiet).await;
    if !matches!(stopped, CliExit::Ok) || !wish.purge {
        return stopped;
    }
    for name in &traces.in_keyring {
        if let Err(error) = traces.secrets.remove(name, &own_variables()).await {
            return failed(&format!("the secret `{name}` is still in the keyring: {error}"));
        }
    }
    for folder in &traces.folders {
        if let Err(error) = std::fs::remove_dir_all(folder) {
            return failed(&format!("`{}` was not deleted: {error}", folder.display()));
        }
        say!("deleted {}", shown(folder));
    }
    CliExit::Ok
}

/// Man pages and completions that `install.sh` writes, as words of a shell.
fn texts_on_disk() -> Vec<String> {
    let Ok(home) = daemon::home() else { return Vec::new() };
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let data = data.unwrap_or_else(|| home.join(".local/share"));
    let pages = data.join("man/man1");
    let mut words = Vec::new();
    if pages.join("switchboard.1").exists() {
        words.push(format!("{}/switchboard*.1", shell_word(&pages)));
    }
    let completions = [
        "bash-completion/completions/switchboard",
        "zsh/site-functions/_switchboard",
        "fish/vendor_completions.d/switchboard.fish",
    ];
    let there = completions.iter().map(|file| data.join(file)).filter(|file| file.exists());
    words.extend(there.map(|file| shell_word(&file)));
    words
}

fn tell_left(traces: &Traces, left: &[&PathBuf], purged: bool) {
    if !traces.host_files.is_empty() {
        say!("restart your editors; until then, open ones keep their shim");
    }
    if !left.is_empty() {
        say!("");
        say!("these are left: your servers, secrets and logs");
        left.iter().for_each(|folder| say!("  {}", shown(folder)));
        if !traces.in_keyring.is_empty() {
            say!("  in the keyring: {}", traces.in_keyring.join(", "));
        }
        say!("`switchboard uninstall --purge` deletes them");
    }
    if (purged || !left.is_empty() || !traces.host_files.is_empty())
        && let Ok(own) = std::env::current_exe()
        && let Some(folder) = own.parent()
    {
        let programs = ["switchboard", "switchboardd", "switchboard-ctl", "switchboard-guard"];
        let mut files: Vec<String> = programs.iter().map(|name| shell_word(&folder.join(name))).collect();
        files.extend(texts_on_disk());
        say!("remove the programs the way you installed them, or with `rm {}`", files.join(" "));
    }
}
