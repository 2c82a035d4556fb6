//! Finds the programs that are installed with the shim, and replaces this process with one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use switchboard_wire::folder::is_ours_alone;

/// The daemon.
pub(crate) const DAEMON: &str = "switchboardd";
/// The commands.
pub(crate) const COMMANDS: &str = "switchboard-ctl";

/// The current path of our own binary, also when an upgrade replaced it while we ran.
pub(crate) fn own_binary() -> io::Result<PathBuf> {
    let path = env::current_exe()?;
    // Linux appends this suffix to the path of a replaced binary.
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !path.exists() => Ok(OsString::from_vec(before.to_owned()).into()),
        _ => Ok(path),
    }
}

/// The program next to our own binary, else the first one on PATH that only we can have put there. Hosts
/// pass on a PATH that contains project directories, and a binary from a repository must not be run.
/// `workspace`: the directory that the host works in.
pub(crate) fn find(name: &str, workspace: Option<&Path>) -> Result<PathBuf, String> {
    let beside = |path: PathBuf| Some(path.parent()?.join(name)).filter(|path| path.is_file());
    let ourselves = own_binary().ok();
    // Not every system resolves the symlink that we may have been started through.
    let resolved = ourselves.as_ref().and_then(|path| path.canonicalize().ok()).and_then(beside);
    if let Some(program) = resolved.or_else(|| ourselves.clone().and_then(beside)) {
        return Ok(program);
    }
    let home = env::home_dir().and_then(|home| home.canonicalize().ok());
    let roots: Vec<PathBuf> = [workspace.map(Path::to_owned), env::current_dir().ok()]
        .into_iter()
        .flatten()
        .filter_map(|folder| project(&folder.canonicalize().ok()?, home.as_deref()))
        .collect();
    on_path(name, &env::var_os("PATH").unwrap_or_default(), &roots).map_err(|skipped| {
        let here = ourselves.as_deref().and_then(Path::parent);
        let here =
            here.map_or_else(|| "the folder of this binary".to_owned(), |here| here.display().to_string());
        let mut why = format!("cannot run `{name}`: it is neither in `{here}` nor on PATH");
        for (program, reason) in skipped {
            why.push_str(&format!("; `{}` is not used: {reason}", program.display()));
        }
        why
    })
}

/// The project that a directory belongs to: the outermost ancestor under version control, else the directory
/// itself. HOME and the root directory are never a project.
fn project(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let inside = |folder: &&Path| Some(*folder) != home && folder.parent().is_some();
    let below = folder.ancestors().take_while(inside);
    below
        .filter(|above| above.join(".git").exists())
        .last()
        .or(Some(folder).filter(inside))
        .map(Path::to_owned)
}

/// The first acceptable program of that name; else the rejected ones, each with the reason.
fn on_path(name: &str, path: &OsStr, roots: &[PathBuf]) -> Result<PathBuf, Vec<(PathBuf, String)>> {
    let mut skipped = Vec::new();
    for folder in env::split_paths(path).filter(|folder| folder.is_absolute()) {
        let program = folder.join(name);
        let Ok(real) = program.canonicalize() else { continue };
        if !real.is_file() {
            continue;
        }
        match reject_reason(&program, roots).or_else(|| reject_reason(&real, roots)) {
            None => return Ok(program),
            Some(why) => skipped.push((program, why)),
        }
    }
    Err(skipped)
}

/// Why a program that was found must not be run: someone else may control it.
fn reject_reason(program: &Path, roots: &[PathBuf]) -> Option<String> {
    if program.components().any(|part| part.as_os_str() == "node_modules") {
        return Some("a project's packages put it there".to_owned());
    }
    let folder = program.parent()?.canonicalize().ok()?;
    if let Some(root) = roots.iter().find(|root| program.starts_with(root) || folder.starts_with(root)) {
        return Some(format!("it is in the project `{}`", root.display()));
    }
    let real = folder.join(program.file_name()?);
    real.ancestors().find_map(|path| {
        let why = is_ours_alone(&path.metadata().ok()?).err()?;
        Some(format!("`{}`: {why}", path.display()))
    })
}

/// Execs `switchboard-ctl`. Returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "an exec: a command is another program, not a child of ours")]
pub(crate) fn run_command(args: &[OsString]) -> String {
    match find(COMMANDS, None) {
        Ok(program) => no_exec(&program, &Command::new(&program).args(args).exec()),
        Err(why) => why,
    }
}

/// The error message for a program that could not be run.
pub(crate) fn no_exec(program: &Path, error: &io::Error) -> String {
    format!("cannot run `{}`: {error}", program.display())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_daemon_binary_inside_a_project_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["good", "open", "work/src", "work/bin", "other/node_modules/.bin", "home"] {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join(DAEMON), "").unwrap();
        }
        fs::create_dir(at("work/.git")).unwrap();
        fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
        // A symlink is judged by its target, even in a good directory.
        fs::create_dir(at("links")).unwrap();
        std::os::unix::fs::symlink(at("work/bin").join(DAEMON), at("links").join(DAEMON)).unwrap();
        std::os::unix::fs::symlink(at("work/bin"), at("linked")).unwrap();
        let roots: Vec<PathBuf> = project(&at("work/src"), Some(&at("home"))).into_iter().collect();
        assert_eq!(roots, [at("work")]);
        assert_eq!(project(&at("home"), Some(&at("home"))), None);
        assert_eq!(project(Path::new("/"), None), None);
        let bad = ["open", "work/bin", "work/src", "other/node_modules/.bin", "links", "linked"];
        for name in bad {
            let found = on_path(DAEMON, at(name).as_os_str(), &roots);
            assert!(found.is_err_and(|skipped| skipped.len() == 1), "{name}");
        }
        let all: Vec<PathBuf> =
            bad.map(at).into_iter().chain([at("none"), "".into(), "good".into(), at("good")]).collect();
        let found = on_path(DAEMON, &env::join_paths(all).unwrap(), &roots);
        assert_eq!(found, Ok(at("good").join(DAEMON)));
        assert_eq!(on_path(DAEMON, OsStr::new(".:good:"), &[]), Err(Vec::new()));
    }
}
