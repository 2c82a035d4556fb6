//! Puts a server's question to the user at the terminal, one line per field.

use serde_json::{Map, Value, json};

use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::output::{print_remark, remark};
use super::prompt;

/// Asks, and returns the result of an `elicitation/create`. What is required is asked until it is answered; the end of
/// the input (Ctrl-D) declines. `order`: the fields as the server wrote them.
pub(super) async fn ask(server: &str, params: &Value, order: &[String]) -> Value {
    let message = params["message"].as_str().unwrap_or_default();
    // The server's line breaks stay; nothing else that it wrote can move the cursor.
    print_remark(&Printable::text(format_args!("`{server}` asks: {message}")));
    prompt::discard_typed();
    let declined = json!({ "action": "decline" });
    let mut fields = fields(&params["requestedSchema"]);
    fields.sort_by_key(|field| order.iter().position(|name| *name == field.name));
    if fields.is_empty() {
        return match prompt::line(&"ok? [y/N] ".into()).await.as_deref().map(str::trim) {
            Ok("y" | "yes" | "Y") => json!({ "action": "accept", "content": {} }),
            _ => declined,
        };
    }
    let mut content = Map::new();
    for field in &fields {
        loop {
            let Ok(typed) = prompt::line(&field.question()).await else {
                remark!("declined");
                return declined;
            };
            match field.value(typed.trim()) {
                Ok(Some(value)) => {
                    content.insert(field.name.clone(), value);
                    break;
                }
                Ok(None) if !field.required => break,
                Ok(None) => remark!("  this is required; Ctrl-D declines the whole form"),
                Err(why) => print_remark(&why),
            }
        }
    }
    json!({ "action": "accept", "content": content })
}

#[derive(Debug, PartialEq)]
struct FormField {
    name: String,
    title: String,
    kind: String,
    choices: Vec<String>,
    default: Option<Value>,
    required: bool,
}

fn fields(schema: &Value) -> Vec<FormField> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let one = |(name, about): (&String, &Value)| {
        let named = about["oneOf"].as_array().into_iter().flatten().map(|choice| &choice["const"]);
        let choices = about["enum"].as_array().into_iter().flatten().chain(named).filter_map(text).collect();
        FormField {
            name: name.clone(),
            title: text(&about["title"])
                .or_else(|| text(&about["description"]))
                .unwrap_or_else(|| name.clone()),
            kind: about["type"].as_str().unwrap_or("string").to_owned(),
            choices,
            default: about.get("default").cloned(),
            required: required.contains(&name.as_str()),
        }
    };
    schema["properties"].as_object().into_iter().flatten().map(one).collect()
}

impl FormField {
    fn question(&self) -> Printable {
        let what = match self.kind.as_str() {
            _ if !self.choices.is_empty() => self.choices.join(" | "),
            "boolean" => "y/n".to_owned(),
            "string" => "text".to_owned(),
            kind => kind.to_owned(),
        };
        let default = self.default.as_ref().map_or(String::new(), |value| format!(", default {value}"));
        let may = if self.required { ", required" } else { ", may be empty" };
        let may = if self.default.is_some() { "" } else { may };
        printable!("  {} ({what}{default}{may}): ", self.title)
    }

    /// Parses the typed text by the field's type; `None` if there is neither text nor a default.
    fn value(&self, typed: &str) -> Result<Option<Value>, Printable> {
        if typed.is_empty() {
            return Ok(self.default.clone());
        }
        if !self.choices.is_empty() {
            return match self.choices.iter().find(|choice| choice.eq_ignore_ascii_case(typed)) {
                Some(choice) => Ok(Some(json!(choice))),
                None => Err(printable!("  write one of {}", self.choices.join(", "))),
            };
        }
        let value = match self.kind.as_str() {
            "boolean" => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => Some(json!(true)),
                "n" | "no" | "false" => Some(json!(false)),
                _ => None,
            },
            "integer" => typed.parse::<i64>().ok().map(Value::from),
            "number" => typed.parse::<f64>().ok().map(Value::from),
            "array" => Some(typed.split(',').map(|part| json!(part.trim())).collect()),
            _ => Some(json!(typed)),
        };
        let wanted = match self.kind.as_str() {
            "boolean" => "y or n",
            "integer" => "a whole number",
            kind => return value.map(Some).ok_or_else(|| printable!("  that is not a {kind}")),
        };
        value.map(Some).ok_or_else(|| printable!("  that is not {wanted}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_what_their_schema_says() {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": { "type": "integer" },
                "colour": { "type": "string", "enum": ["red", "blue"], "default": "red" },
                "sure": { "type": "boolean" },
            },
            "required": ["age"],
        });
        let fields = fields(&schema);
        let of = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert!(of("age").required && !of("sure").required);
        assert_eq!(of("age").value("7"), Ok(Some(json!(7))));
        assert!(of("age").value("seven").is_err());
        assert_eq!(of("age").value(""), Ok(None));
        assert_eq!(of("colour").value("BLUE"), Ok(Some(json!("blue"))));
        assert_eq!(of("colour").value(""), Ok(Some(json!("red"))));
        assert!(of("colour").value("green").is_err());
        assert_eq!(of("sure").value("yes"), Ok(Some(json!(true))));
        assert_eq!(of("colour").question(), "  colour (red | blue, default \"red\"): ");
    }
}
