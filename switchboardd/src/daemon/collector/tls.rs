//! The certificates of a connection to a collector, from the files that `OTEL_…` variables name.

use reqwest::{Certificate, Client, Identity};
use switchboard_wire::event_loop::run_blocking;

use crate::child::remote::http_clients::{pinned_client, read_pem};
use crate::child::remote::root_cause;
use crate::observe::telemetry::settings::{NamedFile, TlsFiles};
use crate::system::environment::ChildEnvironment;

/// A client with what the files hold now. An error names the variable and the file, but nothing in it.
pub(super) async fn client(files: &TlsFiles, variables: &ChildEnvironment) -> Result<Client, String> {
    let files = files.clone();
    let (trusted, own) = run_blocking(move || {
        let trusted = files.certificate.as_ref().map(certificates).transpose()?;
        let own = files.client.as_ref().map(|(own, key)| identity(own, key)).transpose()?;
        Ok::<_, String>((trusted, own))
    })
    .await?;
    pinned_client(variables, trusted, own).await.map_err(|error| root_cause(&error))
}

fn certificates(file: &NamedFile) -> Result<Vec<Certificate>, String> {
    let all = Certificate::from_pem_bundle(&read(file)?).map_err(|_| unfit(file, "it is not a PEM file"))?;
    if all.is_empty() { Err(unfit(file, "it has no certificate")) } else { Ok(all) }
}

fn identity(own: &NamedFile, key: &NamedFile) -> Result<Identity, String> {
    let mut pem = read(own)?;
    pem.push(b'\n');
    pem.extend(read(key)?);
    Identity::from_pem(&pem).map_err(|_| {
        unfit(own, &format!("it and `{}` are not a certificate and a key in PEM", key.path.display()))
    })
}

fn read(file: &NamedFile) -> Result<Vec<u8>, String> {
    read_pem(&file.path).map_err(|why| unfit(file, &why))
}

fn unfit(file: &NamedFile, why: &str) -> String {
    format!("`{}` `{}` cannot be used: {why}", file.variable, file.path.display())
}
