//! Which versions of a package are on disk, where its runner keeps them.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where packages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageKind {
    Npm,
    Python,
}

impl PackageKind {
    /// By the runner among the words of a command.
    pub(super) fn of(words: &[String]) -> Self {
        let is_python = |word: &String| matches!(word.rsplit('/').next(), Some("uvx" | "uv" | "pipx"));
        if words.iter().any(is_python) { Self::Python } else { Self::Npm }
    }

    /// The package without a version or tag.
    fn plain(self, package: &str) -> &str {
        let scope = usize::from(package.starts_with('@'));
        let end = match self {
            Self::Npm => package[scope..].find('@').map(|at| at + scope),
            Self::Python => package.find(['@', '=', '<', '>', '~', '!', ' ']),
        };
        &package[..end.unwrap_or(package.len())]
    }

    /// The package with this version, as its runner takes it.
    pub(super) fn pinned(self, package: &str, version: &str) -> String {
        let separator = match self {
            Self::Npm => "@",
            Self::Python => "==",
        };
        format!("{}{separator}{version}", self.plain(package))
    }

    /// The versions on disk, each once.
    pub(super) fn installed(self, package: &str, home: &Path) -> Vec<String> {
        let plain = self.plain(package);
        let mut versions = match self {
            Self::Npm => npm(package, plain, home),
            Self::Python => python(plain.split('[').next().unwrap_or(plain), home),
        };
        versions.sort();
        versions.dedup();
        versions
    }
}

/// A folder that a variable names, else one in HOME.
fn named_or(variable: &str, home: &Path, usual: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from)
}

fn folders(of: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// `npx` keeps one tree of packages for each set that it ran, and writes that set into the tree. Trees of exactly the
/// package as it is written come before others that contain it.
fn npm(written: &str, package: &str, home: &Path) -> Vec<String> {
    let cache = named_or("npm_config_cache", home, ".npm").join("_npx");
    let read = |file: PathBuf| -> Option<Value> { serde_json::from_slice(&std::fs::read(file).ok()?).ok() };
    let version = |tree: &PathBuf| {
        let told = read(tree.join("node_modules").join(package).join("package.json"))?;
        told["version"].as_str().map(ToOwned::to_owned)
    };
    let is_its_own = |tree: &PathBuf| {
        let told = read(tree.join("package.json")).unwrap_or_default();
        told["_npx"]["packages"].as_array().is_some_and(|set| set.len() == 1 && set[0] == written)
    };
    let (its_own, others): (Vec<_>, Vec<_>) = folders(&cache).into_iter().partition(is_its_own);
    let of = |trees: &[PathBuf]| trees.iter().filter_map(version).collect::<Vec<_>>();
    let found = of(&its_own);
    if found.is_empty() { of(&others) } else { found }
}

/// `uvx` keeps environments in its cache, `uv tool` and `pipx` beside each other; all hold `NAME-VERSION.dist-info`.
fn python(package: &str, home: &Path) -> Vec<String> {
    let cache = named_or("UV_CACHE_DIR", home, ".cache/uv");
    let mut environments = folders(&cache.join("archive-v0"));
    environments.extend(folders(&cache.join("environments-v2")));
    environments.extend(folders(&named_or("UV_TOOL_DIR", home, ".local/share/uv/tools")));
    environments.extend(folders(&named_or("PIPX_HOME", home, ".local/share/pipx").join("venvs")));
    let wanted = normal(package);
    let version = |info: &PathBuf| {
        let (name, version) = info.file_name()?.to_str()?.strip_suffix(".dist-info")?.split_once('-')?;
        (normal(name) == wanted).then(|| version.to_owned())
    };
    let mut versions = Vec::new();
    for environment in environments {
        // A package in the archive has its files at the top; an environment has them in `site-packages`.
        let libraries =
            folders(&environment.join("lib")).into_iter().map(|python| python.join("site-packages"));
        for folder in libraries.chain([environment]) {
            versions.extend(folders(&folder).iter().filter_map(version));
        }
    }
    versions
}

/// Names of Python packages are compared without case, and `-`, `_` and `.` are the same.
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_where_runners_keep_them() {
        let home = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = home.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(".npm/_npx/a1/node_modules/@s/x/package.json", r#"{"version": "1.2.3"}"#);
        write(".npm/_npx/b2/node_modules/@s/x/package.json", r#"{"version": "1.3.0"}"#);
        write(".npm/_npx/c3/node_modules/@s/x/package.json", "damaged");
        write(".cache/uv/archive-v0/h/mcp_server_time-2026.1.0.dist-info/METADATA", "");
        write(
            ".local/share/uv/tools/t/lib/python3.12/site-packages/Mcp_Server_Time-2025.9.1.dist-info/METADATA",
            "",
        );
        assert_eq!(PackageKind::Npm.installed("@s/x@latest", home.path()), ["1.2.3", "1.3.0"]);
        // This tree is what `npx @s/x` uses; the others belong to other commands.
        write(".npm/_npx/b2/package.json", r#"{"_npx": {"packages": ["@s/x"]}}"#);
        assert_eq!(PackageKind::Npm.installed("@s/x", home.path()), ["1.3.0"]);
        let time = PackageKind::Python.installed("mcp-server-time", home.path());
        assert_eq!(time, ["2025.9.1", "2026.1.0"]);
        assert!(PackageKind::Npm.installed("x", home.path()).is_empty());
    }

    #[test]
    fn a_version_stands_where_its_runner_looks_for_it() {
        for (kind, package, pinned) in [
            (PackageKind::Npm, "x", "x@1.0.0"),
            (PackageKind::Npm, "@s/x@latest", "@s/x@1.0.0"),
            (PackageKind::Python, "x", "x==1.0.0"),
            (PackageKind::Python, "x[extra]>=0.9", "x[extra]==1.0.0"),
            (PackageKind::Python, "x@latest", "x==1.0.0"),
        ] {
            assert_eq!(kind.pinned(package, "1.0.0"), pinned);
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(PackageKind::of(&words(&["/usr/bin/uvx", "x"])), PackageKind::Python);
        assert_eq!(PackageKind::of(&words(&["npx", "-y", "x"])), PackageKind::Npm);
    }
}
