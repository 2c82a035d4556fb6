//! Talks to the system's keyring: reads one request, writes one answer and exits. It also exits when its standard
//! input closes. A process of its own, so that neither the daemon nor a command holds a connection to the keyring.

#[cfg(target_os = "macos")]
mod keychain;
#[cfg(not(target_os = "macos"))]
mod secret_service;

#[cfg(target_os = "macos")]
use keychain as backend;
#[cfg(not(target_os = "macos"))]
use secret_service as backend;

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use switchboard_guard::memory::protect_memory;
use switchboardd::secrets::SecretString;
use switchboardd::secrets::keyring::{KEYRING, KeyringAnswer, KeyringRequest};

/// The service attribute of our items.
const SERVICE: &str = "switchboard";

/// The main function of `switchboard-ctl --keyring`.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "JSON for the daemon that started it; constant words"
)]
pub fn run() -> ExitCode {
    // Nothing reads what this process could log.
    let _ = protect_memory();
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line);
    let Some(request) = read.ok().and_then(|_| serde_json::from_slice(&line).ok()) else {
        eprintln!(
            "switchboard-ctl: `{KEYRING}` is for Switchboard's own use; try `switchboard secret --help`"
        );
        return ExitCode::from(2);
    };
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let answer: Result<KeyringAnswer, String> = runtime.block_on(fulfil(request));
    let said = serde_json::to_vec(&answer).expect("BUG: text and names are JSON");
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(&said).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn fulfil(request: KeyringRequest) -> Result<KeyringAnswer, String> {
    match request {
        KeyringRequest::Get { names } => {
            let found = backend::get(&names).await?;
            let mut values = BTreeMap::new();
            for (name, value) in found {
                let value =
                    String::from_utf8(value).map_err(|_| format!("the value of `{name}` is not text"))?;
                values.insert(name, SecretString::new(value));
            }
            Ok(KeyringAnswer { values })
        }
        KeyringRequest::Set { name, value } => {
            backend::set(&name, value.reveal()).await.map(|()| KeyringAnswer::default())
        }
        KeyringRequest::Remove { name } => backend::remove(&name).await.map(|()| KeyringAnswer::default()),
    }
}
