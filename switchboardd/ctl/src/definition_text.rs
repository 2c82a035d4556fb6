//! A definition as a person would write it: the name first, the command before its arguments.

use serde_json::Value;

const ORDER: [&str; 12] = [
    "name",
    "description",
    "command",
    "type",
    "url",
    "headers",
    "cmd",
    "args",
    "env",
    "envFile",
    "passEnv",
    "cwd",
];

pub(super) fn definition_text(definition: &Value) -> String {
    let mut text = String::new();
    write(definition, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
        let nested = format!("{value:#}").replace('\n', &format!("\n{}", "  ".repeat(depth)));
        text.push_str(&nested);
        return;
    };
    let place = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
    let mut members: Vec<_> = members.iter().collect();
    // The names of variables and headers stay in their own order.
    if depth < 2 {
        members.sort_by_key(|(key, _)| place(key));
    }
    text.push('{');
    for (at, (key, value)) in members.into_iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\n{}{}: ", "  ".repeat(depth + 1), Value::from(key.as_str())));
        write(value, depth + 1, text);
    }
    text.push_str(&format!("\n{}}}", "  ".repeat(depth)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_in_the_order_in_which_people_write_them() {
        let definition = json!({"timeout": 5, "command": {"args": ["-y", "x"], "env": {"cwd": "1", "args": "2"}, "cmd": "npx"}, "name": "a"});
        let text = definition_text(&definition);
        let expect = "{\n  \"name\": \"a\",\n  \"command\": {\n    \"cmd\": \"npx\",\n    \"args\": [\n      \"-y\",\n      \"x\"\n    ],\n    \"env\": {\n      \"args\": \"2\",\n      \"cwd\": \"1\"\n    }\n  },\n  \"timeout\": 5\n}\n";
        assert_eq!(text, expect);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), definition);
    }
}
