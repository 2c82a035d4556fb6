//! Finds the shim that hosts should start, by a path that outlives an upgrade.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::KEY;

/// Why no shim can be written into a host's file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoShim {
    #[error("`{}` is not a program that can be started", .0.display())]
    NoProgram(PathBuf),
    #[error("there is no `{KEY}` beside `{}` or on PATH; install both, or name it with `--shim PATH`", .0.display())]
    Nowhere(PathBuf),
    #[error(
        "`{}` is in a build folder, which the next `cargo clean` empties; install it with \
         `cargo install --path switchboard-shim`, or name it with `--shim PATH`",
        .0.display()
    )]
    BuildFolder(PathBuf),
    #[error("`{}` is not valid UTF-8", .0.display())]
    NoText(PathBuf),
}

/// The shim that was named, else the one installed with this program.
pub fn find(named: Option<&Path>, path: &[PathBuf]) -> Result<String, NoShim> {
    if let Some(named) = named {
        let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        return if is_program(&named) { text(named) } else { Err(NoShim::NoProgram(named)) };
    }
    let ourselves = own_binary();
    let beside = ourselves.parent().map(|folder| folder.join(KEY)).filter(|file| is_program(file));
    let found = match beside {
        Some(beside) => stable_path(beside, path),
        None => path.iter().map(|folder| folder.join(KEY)).find(|file| is_program(file)),
    };
    let found = found.ok_or(NoShim::Nowhere(ourselves))?;
    if is_built(&found) {
        return Err(NoShim::BuildFolder(found));
    }
    text(found)
}

/// Package managers keep each version in its own folder and a link on PATH: the link outlives the version.
fn stable_path(beside: PathBuf, path: &[PathBuf]) -> Option<PathBuf> {
    let real = beside.canonicalize().ok();
    let on_path = path.iter().map(|folder| folder.join(KEY));
    let mut same = on_path.filter(|file| real.is_some() && file.canonicalize().ok() == real);
    Some(same.next().unwrap_or(beside))
}

/// The path of our own binary, even if an upgrade replaced it while we run.
fn own_binary() -> PathBuf {
    let path = std::env::current_exe().unwrap_or_default();
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !path.exists() => OsString::from_vec(before.to_owned()).into(),
        _ => path,
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether it is in a cargo build folder.
fn is_built(file: &Path) -> bool {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    real.ancestors()
        .skip(1)
        .any(|folder| folder.join(".rustc_info.json").is_file() || folder.join(".cargo-lock").is_file())
}

fn text(path: PathBuf) -> Result<String, NoShim> {
    path.into_os_string().into_string().map_err(|path| NoShim::NoText(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_path_is_preferred_to_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("v1")).unwrap();
        std::fs::create_dir_all(at("bin")).unwrap();
        std::fs::write(at("v1/switchboard"), "").unwrap();
        std::os::unix::fs::symlink(at("v1/switchboard"), at("bin/switchboard")).unwrap();
        let found = stable_path(at("v1/switchboard"), &[at("none"), at("bin")]);
        assert_eq!(found, Some(at("bin/switchboard")));
        assert_eq!(stable_path(at("v1/switchboard"), &[]), Some(at("v1/switchboard")));
    }

    #[test]
    fn a_cargo_build_folder_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target/debug/switchboard");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(!is_built(&file));
        std::fs::write(folder.path().join("target/.rustc_info.json"), "{}").unwrap();
        assert!(is_built(&file));
        assert_eq!(find(Some(&file), &[]), Err(NoShim::NoProgram(file)));
    }
}
