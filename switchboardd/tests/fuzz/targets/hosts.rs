//! The files of editors, which are edited in place.

use switchboard_hosts::table::HOSTS;
use switchboard_hosts::{Change, KEY};

use super::Target;

const SHIM: &str = "/opt/bin/switchboard";

pub(crate) const FILES: Target = Target {
    name: "host-files",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "//",
        "/* */",
        "\n",
        "\r\n",
        "  ",
        "\t",
        "\u{feff}",
        "\"mcpServers\":{",
        "\"servers\":{",
        "\"a\":{\"command\":\"b\"}",
        "\"mcp\":{",
        "[mcp_servers.a]\n",
        "command = \"b\"\n",
        "args = []\n",
        "[x]\n",
        "a = 1\n",
        "mcpServers:\n",
        "  - name: a\n",
        "    command: b\n",
        "- ",
        "# c\n",
        "---\n",
        "&x ",
        "*x",
        "|\n",
        "\"projects\":{",
    ],
    most: 30,
    seeds: || {
        [
            "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"},\n  },\n}\n",
            "{\"servers\":{}}",
            "# mine\n[mcp_servers.a]\ncommand = \"b\"\n\n[other]\nx = 1\n",
            "name: mine\nmcpServers:\n  - name: a\n    command: b\nmodels:\n  - x\n",
        ]
        .map(str::to_owned)
        .into()
    },
    run: |input| {
        let text = String::from_utf8_lossy(input);
        // One host for each format and key is enough.
        let mut seen = Vec::new();
        for host in &HOSTS {
            if seen.contains(&host.format) {
                continue;
            }
            seen.push(host.format);
            let Ok(Change::Added { text: after, there_before }) = host.with_shim(&text, SHIM) else {
                continue;
            };
            let before = host.format.read(&text).expect("it was read to be changed");
            let now =
                host.format.read(&after).unwrap_or_else(|error| panic!("{}: {error:?}\n{after}", host.id));
            let others = now.entries.iter().filter(|entry| entry.name != KEY || entry.project.is_some());
            assert!(others.eq(before.entries.iter()), "{}: other servers changed\n{after}", host.id);
            assert_eq!(
                host.with_shim(&after, SHIM),
                Ok(Change::Same { is_off: false }),
                "{}\n{after}",
                host.id
            );
            let undone = host
                .without_shim(&after, there_before)
                .unwrap_or_else(|error| panic!("{}: {error:?}\n{after}", host.id));
            // A text without any value has no place to return to; its record restores it.
            if !before.entries.is_empty() {
                assert_eq!(undone.as_deref(), Some(&*text), "{}: not as before\n{after}", host.id);
            }
        }
    },
};
