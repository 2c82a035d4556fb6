//! The Secret Service of a Linux desktop, over the session's D-Bus with an encrypted transport. A locked
//! keyring asks the user to unlock it, as it does for every program.

use std::collections::{BTreeMap, HashMap};

use ::secret_service::{EncryptionType, Error, Item, SecretService};

use super::SERVICE;

pub(super) async fn get(names: &[String]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let keyring = connect().await?;
    let mut found = BTreeMap::new();
    for name in names {
        if let Some(item) = items(&keyring, name).await.map_err(|error| describe_error(&error))?.first() {
            found.insert(name.clone(), item.get_secret().await.map_err(|error| describe_error(&error))?);
        }
    }
    Ok(found)
}

pub(super) async fn set(name: &str, value: &str) -> Result<(), String> {
    let keyring = connect().await?;
    let stored = async {
        let collection = keyring.get_default_collection().await?;
        if collection.is_locked().await? {
            collection.unlock().await?;
        }
        let label = format!("Switchboard: {name}");
        collection.create_item(&label, attributes(name), value.as_bytes(), true, "text/plain").await.map(drop)
    };
    stored.await.map_err(|error| describe_error(&error))
}

pub(super) async fn remove(name: &str) -> Result<(), String> {
    let keyring = connect().await?;
    for item in items(&keyring, name).await.map_err(|error| describe_error(&error))? {
        item.delete().await.map_err(|error| describe_error(&error))?;
    }
    Ok(())
}

async fn connect() -> Result<SecretService<'static>, String> {
    SecretService::connect(EncryptionType::Dh).await.map_err(|error| describe_error(&error))
}

/// The items of that name, unlocked.
async fn items<'a>(keyring: &'a SecretService<'_>, name: &str) -> Result<Vec<Item<'a>>, Error> {
    let mut found = keyring.search_items(attributes(name)).await?;
    for item in &found.locked {
        item.unlock().await?;
    }
    found.unlocked.append(&mut found.locked);
    Ok(found.unlocked)
}

fn attributes(name: &str) -> HashMap<&str, &str> {
    HashMap::from([("service", SERVICE), ("username", name)])
}

fn describe_error(error: &Error) -> String {
    match error {
        Error::Unavailable => "there is no Secret Service on this session's D-Bus".into(),
        Error::Locked | Error::Prompt | Error::PromptDisconnected => {
            "it is locked and was not unlocked".into()
        }
        Error::NoResult => "it has no default collection".into(),
        Error::Zbus(error) => error.to_string(),
        Error::ZbusFdo(error) => error.to_string(),
        other => other.to_string(),
    }
}
