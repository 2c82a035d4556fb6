//! TOML, which Codex uses for settings of the user and of projects.

use std::path::Path;

use switchboard_definitions::document::{Document, parse_toml};

use super::Target;

pub(crate) const TOML: Target = Target {
    name: "toml",
    parts: &[
        "a",
        "b",
        ".",
        ".a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a",
        "\"c d\"",
        "'e'",
        " = ",
        "1",
        "\"x\"",
        "\"\"\"",
        "'''",
        "{ ",
        " }",
        "[",
        "]",
        "[[",
        "]]",
        ",",
        "\n",
        "\r\n",
        "# n",
        "\\u0041",
        "1979-05-27T07:32:00Z",
        "0x1f",
        "1e6",
        "-inf",
        "true",
        "\u{feff}",
    ],
    most: 120,
    seeds: || {
        let key = vec!["a"; 30].join(".");
        vec![
            "a.b.c = 1\n".to_owned(),
            "[a.b]\nc.d = { e.f = { g.h = [ { i.j = 1 } ] } }\n[[k.l]]\nm.n = 2\n[k.l.o]\n".to_owned(),
            format!("[{key}]\n{key} = {{ {key} = 1 }}\n"),
            format!("[[{key}]]\n{key} = [{{ {key} = [] }}]\n[{key}.{key}]\n"),
            format!("{} = 1\n", vec!["a"; 100_000].join(".")),
        ]
    },
    run: |input| {
        let text = String::from_utf8_lossy(input);
        if let Err((at, why)) = parse_toml(&text) {
            assert!(at <= text.len() && !why.is_empty(), "{at} of {}: {why}", text.len());
        }
        let visit = Document::from_text(Path::new("/d/config.toml"), &text).visit(|_| ());
        assert!(visit.made.is_some() == visit.problems.is_empty(), "{text}");
    },
};
