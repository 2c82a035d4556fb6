//! Secrets that the user stores for definitions, where `${NAME}` stands for one.
//!
//! A value is in the system's keyring or, if no keyring answers, in a private file, which is also the index
//! of all names. A separate process talks to the keyring, so that the daemon never holds a connection to it.
//! No value ever appears in a log line, an error or an argument vector.

mod index;
pub mod keyring;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_definitions::env_file::is_name;
use switchboard_definitions::files::private::UnsafeFile;
use switchboard_wire::event_loop::run_blocking;

use crate::system::environment::ChildEnvironment;
use index::{SecretEntry, SecretsIndex};
use keyring::{KeyringAnswer, KeyringError, KeyringRequest};

const MAX_NAME: usize = 128;
/// Longer than any key or certificate chain, short enough for an environment variable.
const MAX_VALUE: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    #[error(
        "`{0}` is not a valid secret name: letters, digits, `_`, `.` and `-`, not a digit first, at most {MAX_NAME}"
    )]
    Name(String),
    #[error("the value for `{name}` {why}")]
    Value { name: String, why: &'static str },
    #[error("there is no secret `{0}`; `switchboard secret ls` shows those that are set")]
    Absent(String),
    #[error(transparent)]
    Unfit(#[from] UnsafeFile),
    #[error(
        "`{}` is damaged at line {line}, column {column}; fix it, or move it away and set the secrets again",
        file.display()
    )]
    Damaged { file: PathBuf, line: usize, column: usize },
    #[error("`{}` is of version {version}, which another version of Switchboard wrote; use that one", file.display())]
    Version { file: PathBuf, version: u64 },
    #[error("`{}` cannot be written: {error}", file.display())]
    Unwritten { file: PathBuf, error: std::io::Error },
    #[error("{} in the keyring, which gave nothing: {why}", list_names(names))]
    Keyring { names: Vec<String>, why: KeyringError },
    #[error("secret `{0}` is not in the keyring any more; set it again with `switchboard secret set {0}`")]
    Lost(String),
}

fn list_names(names: &[String]) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match named.as_slice() {
        [one] => format!("secret {one} stands"),
        several => format!("secrets {} stand", several.join(", ")),
    }
}

/// Where a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretLocation {
    Keyring,
    File,
}

/// Where a new value was stored.
#[derive(Debug)]
pub enum StoreOutcome {
    InKeyring,
    /// The keyring did not store it; `stale` if it still holds an older value of that name.
    InFile {
        why: KeyringError,
        stale: bool,
    },
}

/// A value that `Debug` does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the code that passes it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The secrets of one user.
#[derive(Debug, Clone)]
pub struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    /// The secrets below a state folder.
    pub fn new(state: &Path) -> Self {
        Self::within(state.join("secrets"))
    }

    /// The secrets in this folder.
    pub fn within(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The values of those `names` that are set.
    pub async fn values(
        &self,
        names: &[String],
        variables: &ChildEnvironment,
    ) -> Result<BTreeMap<String, String>, SecretsError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut kept = self.index().await?.secrets;
        // All values in the keyring are requested at once.
        let (mut values, mut asked) = (BTreeMap::new(), Vec::new());
        for name in names {
            match kept.remove(name) {
                Some(SecretEntry::File { value }) => {
                    values.insert(name.clone(), value.0);
                }
                Some(SecretEntry::Keyring {}) => asked.push(name.clone()),
                None => {}
            }
        }
        if asked.is_empty() {
            return Ok(values);
        }
        let request = KeyringRequest::Get { names: asked.clone() };
        let mut found = match keyring::ask(&request, variables).await {
            Ok(KeyringAnswer { values }) => values,
            Err(why) => return Err(SecretsError::Keyring { names: asked, why }),
        };
        for name in asked {
            let value = found.remove(&name).ok_or_else(|| SecretsError::Lost(name.clone()))?;
            values.insert(name, value.0);
        }
        Ok(values)
    }

    /// Stores a value: in the keyring if there is one, else in the file.
    pub async fn set(
        &self,
        name: &str,
        value: &str,
        variables: &ChildEnvironment,
    ) -> Result<StoreOutcome, SecretsError> {
        check_name(name)?;
        check_value(name, value)?;
        let _lock = index::lock(&self.folder).await?;
        let mut index = self.index().await?;
        let request = KeyringRequest::Set { name: name.to_owned(), value: SecretString(value.to_owned()) };
        let (kept, stored) = match keyring::ask(&request, variables).await {
            Ok(_) => (SecretEntry::Keyring {}, StoreOutcome::InKeyring),
            Err(why) => {
                let stale = matches!(index.secrets.get(name), Some(SecretEntry::Keyring {}));
                (
                    SecretEntry::File { value: SecretString(value.to_owned()) },
                    StoreOutcome::InFile { why, stale },
                )
            }
        };
        index.secrets.insert(name.to_owned(), kept);
        self.save(index).await?;
        Ok(stored)
    }

    /// Removes a secret. If the keyring refuses, the secret stays.
    pub async fn remove(&self, name: &str, variables: &ChildEnvironment) -> Result<(), SecretsError> {
        check_name(name)?;
        let absent = || SecretsError::Absent(name.to_owned());
        if !self.index().await?.secrets.contains_key(name) {
            return Err(absent());
        }
        let _lock = index::lock(&self.folder).await?;
        let mut index = self.index().await?;
        if let SecretEntry::Keyring {} = index.secrets.remove(name).ok_or_else(absent)? {
            let request = KeyringRequest::Remove { name: name.to_owned() };
            let answer = keyring::ask(&request, variables).await;
            answer.map_err(|why| SecretsError::Keyring { names: vec![name.to_owned()], why })?;
        }
        self.save(index).await
    }

    async fn index(&self) -> Result<SecretsIndex, SecretsError> {
        let folder = self.folder.clone();
        run_blocking(move || SecretsIndex::load(&folder)).await
    }

    async fn save(&self, index: SecretsIndex) -> Result<(), SecretsError> {
        let folder = self.folder.clone();
        run_blocking(move || index.save(&folder)).await
    }

    /// [`Self::list`] off the event loop.
    pub async fn list_async(&self) -> Result<BTreeMap<String, SecretLocation>, SecretsError> {
        let secrets = self.clone();
        run_blocking(move || secrets.list()).await
    }

    /// All names, and where each value is stored.
    pub fn list(&self) -> Result<BTreeMap<String, SecretLocation>, SecretsError> {
        let index = SecretsIndex::load(&self.folder)?;
        let place = |kept: &SecretEntry| match kept {
            SecretEntry::Keyring {} => SecretLocation::Keyring,
            SecretEntry::File { .. } => SecretLocation::File,
        };
        Ok(index.secrets.iter().map(|(name, kept)| (name.clone(), place(kept))).collect())
    }
}

/// Whether a secret can have this name.
pub fn check_name(name: &str) -> Result<(), SecretsError> {
    if is_name(name) && name.len() <= MAX_NAME {
        return Ok(());
    }
    // A long name is cut: the user may have given the value as the name.
    let mut shown: String = name.chars().take(12).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    Err(SecretsError::Name(shown))
}

fn check_value(name: &str, value: &str) -> Result<(), SecretsError> {
    let why = if value.is_empty() {
        "is empty"
    } else if value.contains('\0') {
        "holds a NUL, which no variable can"
    } else if value.len() > MAX_VALUE {
        "is longer than 64 KiB"
    } else {
        return Ok(());
    };
    Err(SecretsError::Value { name: name.to_owned(), why })
}

/// How many bytes to read from input, so that a value over the limit is noticed.
pub const READ_LIMIT: u64 = MAX_VALUE as u64 + 3;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn secrets_from(text: &str) -> (tempfile::TempDir, Secrets) {
        let state = tempfile::tempdir().unwrap();
        switchboard_wire::folder::private_folder(&state.path().join("secrets")).unwrap();
        switchboard_definitions::files::replace(&state.path().join("secrets/secrets.json"), text.as_bytes())
            .unwrap();
        let secrets = Secrets::new(state.path());
        (state, secrets)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn only_secrets_that_are_set_are_returned() {
        let (_state, secrets) = secrets_from(
            r#"{"version":1,"secrets":{"A":{"in":"file","value":"one"},"B":{"in":"file","value":"two"}}}"#,
        );
        let values = secrets.values(&names(&["A", "C", "A"]), &ChildEnvironment::default()).await.unwrap();
        assert_eq!(values, BTreeMap::from([("A".to_owned(), "one".to_owned())]));
        assert_eq!(secrets.list().unwrap()["B"], SecretLocation::File);
    }

    #[tokio::test]
    async fn a_missing_file_means_no_secrets() {
        let secrets = Secrets::new(Path::new("/nonexistent"));
        assert!(secrets.values(&names(&["A"]), &ChildEnvironment::default()).await.unwrap().is_empty());
        assert!(secrets.list().unwrap().is_empty());
        let removed = secrets.remove("A", &ChildEnvironment::default()).await;
        assert!(matches!(removed, Err(SecretsError::Absent(_))), "{removed:?}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_trusted_is_left_as_it_is() {
        for (text, part) in [
            ("", "damaged at line 1"),
            ("{", "damaged at line 1"),
            (r#"{"version":1,"secrets":{"A":"hunter2"}}"#, "damaged at line 1"),
            (r#"{"version":1,"secrets":{"A":{"in":"file"}}}"#, "damaged at line 1"),
            (r#"{"version":1,"secrets":{"A":{"in":"hunter2"}}}"#, "damaged at line 1"),
            (r#"{"version":1,"secrets":{"A":{"in":"file","value":"x","hunter2":"y"}}}"#, "damaged at line 1"),
            (r#"{"version":1,"secrets":{"A":{"in":"file","value":"hunter2"}}"#, "damaged at line 1"),
            (r#"{"version":2,"keys":{"A":"hunter2"}}"#, "version 2"),
        ] {
            let (state, secrets) = secrets_from(text);
            let file = state.path().join("secrets/secrets.json");
            let nothing = ChildEnvironment::default();
            for error in [
                secrets.values(&names(&["A"]), &nothing).await.unwrap_err(),
                secrets.set("A", "new", &nothing).await.unwrap_err(),
                secrets.remove("A", &nothing).await.unwrap_err(),
                secrets.list().unwrap_err(),
            ] {
                let (told, shown) = (error.to_string(), format!("{error:?}"));
                assert!(told.contains(part) && told.contains(file.to_str().unwrap()), "{text}: {told}");
                assert!(!told.contains("hunter2") && !shown.contains("hunter2"), "{told} {shown}");
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        let (state, secrets) = secrets_from(r#"{"version":1,"secrets":{}}"#);
        let file = state.path().join("secrets/secrets.json");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(secrets.list().unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn names_and_values_have_bounds() {
        for good in ["A", "_", "a.b-c_9", &"x".repeat(MAX_NAME)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "9", "-a", ".a", "a b", "a=b", "ä", "a\n", &"x".repeat(MAX_NAME + 1)] {
            let told = check_name(bad).unwrap_err().to_string();
            assert!(told.len() < 150, "{told}");
        }
        for bad in ["", "a\0b", &"x".repeat(MAX_VALUE + 1)] {
            assert!(check_value("A", bad).is_err());
        }
        assert!(check_value("A", &"x".repeat(MAX_VALUE)).is_ok());
    }

    #[test]
    fn debug_output_hides_values() {
        let kept = SecretEntry::File { value: SecretString("hunter2".into()) };
        let request = KeyringRequest::Set { name: "A".into(), value: SecretString("hunter2".into()) };
        assert!(!format!("{kept:?}{request:?}").contains("hunter2"));
    }
}
