//! Every host, and what is known of its files, as data.

use super::{Base, Format, Gaps, Host, HostFile, Part, Unit};

const PLAIN: &[(&str, Part)] = &[("command", Part::Shim), ("args", Part::NoArgs)];
const STDIO: &[(&str, Part)] =
    &[("type", Part::Text("stdio")), ("command", Part::Shim), ("args", Part::NoArgs)];

const MCP_SERVERS: Format = Format::Json { key: "mcpServers", projects: false };

const fn place(base: Base, file: &'static str, folder: &'static str) -> HostFile {
    HostFile { base, file, folder: Some(folder) }
}

/// A file that is used only if it exists.
const fn existing(base: Base, file: &'static str) -> HostFile {
    HostFile { base, file, folder: None }
}

/// A host whose servers are plain members of `mcpServers`.
const fn plain(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    places: &'static [HostFile],
    gaps: Gaps,
) -> Host {
    Host {
        id,
        name,
        programs,
        places,
        alternatives: false,
        format: MCP_SERVERS,
        entry: PLAIN,
        gaps,
        timeout: Unit::Milliseconds,
    }
}

/// In the order in which users see them.
pub static HOSTS: [Host; 16] = [
    Host {
        format: Format::Json { key: "mcpServers", projects: true },
        entry: STDIO,
        ..plain(
            "claude-code",
            "Claude Code",
            &["claude"],
            &[
                // With the variable set, the file is in that folder; without it, next to `~/.claude`.
                HostFile {
                    base: Base::Variable("CLAUDE_CONFIG_DIR", ""),
                    file: ".claude.json",
                    folder: Some(".claude"),
                },
            ],
            Gaps::Plain,
        )
    },
    plain(
        "claude-desktop",
        "Claude Desktop",
        &[],
        &[place(Base::Application, "Claude/claude_desktop_config.json", "Claude")],
        Gaps::None,
    ),
    plain("cursor", "Cursor", &["cursor"], &[place(Base::Home, ".cursor/mcp.json", ".cursor")], Gaps::Env),
    Host {
        format: Format::Json { key: "servers", projects: false },
        entry: STDIO,
        timeout: Unit::Nothing,
        ..plain(
            "vscode",
            "VS Code",
            &["code", "code-insiders", "codium"],
            &[
                place(Base::Application, "Code/User/mcp.json", "Code/User"),
                place(Base::Application, "Code - Insiders/User/mcp.json", "Code - Insiders/User"),
                place(Base::Application, "VSCodium/User/mcp.json", "VSCodium/User"),
            ],
            Gaps::Env,
        )
    },
    Host {
        entry: &[
            ("type", Part::Text("local")),
            ("command", Part::Shim),
            ("args", Part::NoArgs),
            ("tools", Part::List("*")),
        ],
        ..plain(
            "copilot-cli",
            "Copilot CLI",
            &["copilot"],
            &[place(Base::Variable("COPILOT_HOME", ".copilot"), "mcp-config.json", "")],
            Gaps::Plain,
        )
    },
    Host {
        format: Format::Json { key: "context_servers", projects: false },
        timeout: Unit::Seconds,
        ..plain(
            "zed",
            "Zed",
            &["zed", "zeditor"],
            &[place(Base::Config, "zed/settings.json", "zed")],
            Gaps::None,
        )
    },
    plain(
        "windsurf",
        "Windsurf",
        &["windsurf"],
        &[
            place(Base::Home, ".codeium/windsurf/mcp_config.json", ".codeium/windsurf"),
            existing(Base::Home, ".codeium/mcp_config.json"),
        ],
        Gaps::Env,
    ),
    Host {
        format: Format::Toml,
        // Without it, Codex runs one call at a time.
        entry: &[("command", Part::Shim), ("supports_parallel_tool_calls", Part::True)],
        timeout: Unit::Nothing,
        ..plain(
            "codex",
            "Codex",
            &["codex"],
            &[place(Base::Variable("CODEX_HOME", ".codex"), "config.toml", "")],
            Gaps::None,
        )
    },
    plain(
        "gemini",
        "Gemini CLI",
        &["gemini"],
        &[place(Base::Home, ".gemini/settings.json", ".gemini")],
        Gaps::Dollar,
    ),
    Host {
        timeout: Unit::Seconds,
        ..plain(
            "cline",
            "Cline",
            &["cline"],
            &[
                place(Base::Home, ".cline/data/settings/cline_mcp_settings.json", ".cline/data"),
                existing(Base::Home, ".cline/mcp.json"),
                place(
                    Base::Application,
                    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                    "Code/User/globalStorage/saoudrizwan.claude-dev",
                ),
                place(
                    Base::Application,
                    "Cursor/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                    "Cursor/User/globalStorage/saoudrizwan.claude-dev",
                ),
            ],
            Gaps::Env,
        )
    },
    Host {
        timeout: Unit::Seconds,
        ..plain(
            "roo",
            "Roo Code",
            &[],
            &[
                place(
                    Base::Application,
                    "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "Code/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
                place(
                    Base::Application,
                    "VSCodium/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "VSCodium/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
                place(
                    Base::Application,
                    "Cursor/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "Cursor/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
            ],
            Gaps::Env,
        )
    },
    Host {
        format: Format::Yaml,
        entry: &[("name", Part::Text(super::KEY)), ("command", Part::Shim)],
        timeout: Unit::Nothing,
        ..plain(
            "continue",
            "Continue",
            &["cn"],
            &[place(Base::Variable("CONTINUE_GLOBAL_DIR", ".continue"), "config.yaml", "")],
            Gaps::Secrets,
        )
    },
    Host {
        alternatives: true,
        format: Format::Json { key: "mcp", projects: false },
        entry: &[("type", Part::Text("local")), ("command", Part::Argv), ("enabled", Part::True)],
        // Its `timeout` limits fetching the list of tools.
        timeout: Unit::Nothing,
        ..plain(
            "opencode",
            "OpenCode",
            &["opencode"],
            &[
                place(Base::Config, "opencode/opencode.json", "opencode"),
                existing(Base::Config, "opencode/opencode.jsonc"),
                existing(Base::Config, "opencode/config.json"),
            ],
            Gaps::Braces,
        )
    },
    plain(
        "junie",
        "Junie (JetBrains)",
        &["junie"],
        &[place(Base::Home, ".junie/mcp/mcp.json", ".junie")],
        Gaps::None,
    ),
    Host {
        format: Format::Json { key: "servers", projects: false },
        entry: STDIO,
        ..plain("visual-studio", "Visual Studio", &[], &[], Gaps::Env)
    },
    plain("jetbrains", "JetBrains AI Assistant", &[], &[], Gaps::None),
];

pub fn by_id(id: &str) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_can_be_typed_and_are_unique() {
        let mut ids: Vec<_> = HOSTS.iter().map(|host| host.id).collect();
        assert!(ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), HOSTS.len());
    }
}
