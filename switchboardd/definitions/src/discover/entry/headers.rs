//! The headers of a remote server, in the spelling of any host.

use std::collections::BTreeMap;

use super::{EntryLocation, wrong};
use crate::document::Fields;
use crate::expand::{Dialect, ExpansionContext, Template};

pub(super) fn headers(
    fields: &Fields<'_>,
    location: &EntryLocation<'_>,
) -> Result<BTreeMap<String, Template>, String> {
    let mut headers = BTreeMap::new();
    // These name variables, also where the file's format has no placeholders.
    let names = ExpansionContext { dialect: Dialect::All, ..location.context.clone() };
    if let Some(name) = fields.get("bearer_token_env_var") {
        let name = name.text().ok_or_else(|| wrong("bearer_token_env_var"))?;
        let value = Template::parse(&format!("Bearer ${{{name}}}"), &names)?;
        headers.insert("authorization".to_owned(), value);
    }
    for key in ["headers", "http_headers", "env_http_headers"] {
        let Some(node) = fields.get(key) else { continue };
        for (name, value) in node.object().ok_or_else(|| wrong(key))?.entries() {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(format!("`{}` cannot name a header", switchboard_wire::visible::visible(name)));
            }
            let value = value.text().ok_or_else(|| wrong(key))?;
            let value = match key {
                "env_http_headers" => Template::parse(&format!("${{env:{value}}}"), &names)?,
                _ => Template::parse(&value, &location.context)?,
            };
            headers.insert(name.to_ascii_lowercase(), value);
        }
    }
    Ok(headers)
}
