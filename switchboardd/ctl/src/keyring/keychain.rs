//! The macOS Keychain.

use std::collections::BTreeMap;

use security_framework::passwords::{
    PasswordOptions, delete_generic_password, generic_password, set_generic_password,
};

use super::SERVICE;

/// `errSecItemNotFound`.
const NOT_FOUND: i32 = -25300;

pub(super) async fn get(names: &[String]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    for name in names {
        match generic_password(PasswordOptions::new_generic_password(SERVICE, name)) {
            Ok(value) => {
                found.insert(name.clone(), value);
            }
            Err(error) if error.code() == NOT_FOUND => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(found)
}

pub(super) async fn set(name: &str, value: &str) -> Result<(), String> {
    set_generic_password(SERVICE, name, value.as_bytes()).map_err(|error| error.to_string())
}

pub(super) async fn remove(name: &str) -> Result<(), String> {
    match delete_generic_password(SERVICE, name) {
        Err(error) if error.code() != NOT_FOUND => Err(error.to_string()),
        _ => Ok(()),
    }
}
