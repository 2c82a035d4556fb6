//! The resources.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::content::PNG;
use super::step::{Round, Step};
use super::wire::Fault;

pub(super) const TEMPLATE: &str = "test://template/{id}/data";
pub(super) const WATCHED: &str = "test://watched-resource";

pub(super) fn list(changes: u64) -> Vec<Value> {
    let entry = |uri: &str, name: &str, says: &str, mime: &str| json!({"uri": uri, "name": name, "description": says, "mimeType": mime});
    let watched = format!("A text that changes (changes of the list so far: {changes})");
    vec![
        entry("test://static-text", "static-text", "A text", "text/plain"),
        entry("test://static-binary", "static-binary", "An image", "image/png"),
        entry(WATCHED, "watched-resource", &watched, "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<Value> {
    vec![json!({"uriTemplate": TEMPLATE, "name": "template", "description": "Data by id",
        "mimeType": "application/json"})]
}

pub(super) fn read(round: &Round<'_>) -> Step {
    let Some(uri) = round.params["uri"].as_str() else { return Step::invalid("`uri` is needed") };
    let contents = match uri {
        "test://static-text" => {
            json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"mimeType": "image/png", "blob": PNG}),
        WATCHED => {
            let version = round.child.watched.load(Ordering::Relaxed);
            json!({"mimeType": "text/plain", "text": format!("Watched resource, version {version}")})
        }
        _ => match templated(uri) {
            Some(id) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                json!({"mimeType": "application/json", "text": data.to_string()})
            }
            None => return not_found(round, uri),
        },
    };
    let mut contents = contents;
    contents["uri"] = uri.into();
    Step::Done(json!({"contents": [contents]}))
}

fn not_found(round: &Round<'_>, uri: &str) -> Step {
    let code = if round.revision.is_modern() { -32602 } else { -32002 };
    Step::Fail(Fault::new(code, "Resource not found").with(json!({"uri": uri})))
}

/// The `{id}` of a URI that matches the template.
fn templated(uri: &str) -> Option<&str> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_one_segment() {
        assert_eq!(templated("test://template/123/data"), Some("123"));
        for other in ["test://template//data", "test://template/1/2/data", "test://template/1", "test://x"] {
            assert_eq!(templated(other), None, "{other}");
        }
    }
}
