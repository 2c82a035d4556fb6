//! Every host, and what is known of its files, as data.

use super::{BaseFolder, EntryValue, Host, HostFile, HostFileFormat, PlaceholderSyntax, TimeoutUnit};

const PLAIN: &[(&str, EntryValue)] = &[("command", EntryValue::Shim), ("args", EntryValue::NoArgs)];
const STDIO: &[(&str, EntryValue)] =
    &[("type", EntryValue::Text("stdio")), ("command", EntryValue::Shim), ("args", EntryValue::NoArgs)];

const MCP_SERVERS: HostFileFormat = HostFileFormat::Json { key: "mcpServers", projects: false };

const fn host_file(base: BaseFolder, file: &'static str, folder: &'static str) -> HostFile {
    HostFile { base, file, folder: Some(folder) }
}

/// A file that is used only if it exists.
const fn existing(base: BaseFolder, file: &'static str) -> HostFile {
    HostFile { base, file, folder: None }
}

/// A host whose servers are plain members of `mcpServers`.
const fn plain_host(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    places: &'static [HostFile],
    gaps: PlaceholderSyntax,
) -> Host {
    Host {
        id,
        name,
        programs,
        places,
        alternatives: false,
        format: MCP_SERVERS,
        entry: PLAIN,
        placeholders: gaps,
        timeout: TimeoutUnit::Milliseconds,
        rules: &[],
        project_rules: &[],
    }
}

/// In the order in which users see them.
pub static HOSTS: [Host; 17] = [
    Host {
        format: HostFileFormat::Json { key: "mcpServers", projects: true },
        entry: STDIO,
        rules: &[
            existing(BaseFolder::Variable("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"),
            existing(BaseFolder::Variable("CLAUDE_CONFIG_DIR", ".claude"), "settings.local.json"),
            existing(BaseFolder::Managed, "managed-settings.json"),
        ],
        project_rules: &[".claude/settings.json", ".claude/settings.local.json"],
        ..plain_host(
            "claude-code",
            "Claude Code",
            &["claude"],
            &[
                // With the variable set, the file is in that folder; without it, next to `~/.claude`.
                HostFile {
                    base: BaseFolder::Variable("CLAUDE_CONFIG_DIR", ""),
                    file: ".claude.json",
                    folder: Some(".claude"),
                },
            ],
            PlaceholderSyntax::Plain,
        )
    },
    plain_host(
        "claude-desktop",
        "Claude Desktop",
        &[],
        &[host_file(BaseFolder::Application, "Claude/claude_desktop_config.json", "Claude")],
        PlaceholderSyntax::None,
    ),
    Host {
        rules: &[
            existing(BaseFolder::Home, ".cursor/cli-config.json"),
            existing(BaseFolder::Config, "cursor/cli-config.json"),
        ],
        ..plain_host(
            "cursor",
            "Cursor",
            &["cursor"],
            &[host_file(BaseFolder::Home, ".cursor/mcp.json", ".cursor")],
            PlaceholderSyntax::Env,
        )
    },
    Host {
        format: HostFileFormat::Json { key: "servers", projects: false },
        entry: STDIO,
        timeout: TimeoutUnit::Nothing,
        ..plain_host(
            "vscode",
            "VS Code",
            &["code", "code-insiders", "codium"],
            &[
                host_file(BaseFolder::Application, "Code/User/mcp.json", "Code/User"),
                host_file(BaseFolder::Application, "Code - Insiders/User/mcp.json", "Code - Insiders/User"),
                host_file(BaseFolder::Application, "VSCodium/User/mcp.json", "VSCodium/User"),
            ],
            PlaceholderSyntax::Env,
        )
    },
    Host {
        entry: &[
            ("type", EntryValue::Text("local")),
            ("command", EntryValue::Shim),
            ("args", EntryValue::NoArgs),
            ("tools", EntryValue::List("*")),
        ],
        ..plain_host(
            "copilot-cli",
            "Copilot CLI",
            &["copilot"],
            &[host_file(BaseFolder::Variable("COPILOT_HOME", ".copilot"), "mcp-config.json", "")],
            PlaceholderSyntax::Plain,
        )
    },
    Host {
        format: HostFileFormat::Json { key: "context_servers", projects: false },
        timeout: TimeoutUnit::Seconds,
        ..plain_host(
            "zed",
            "Zed",
            &["zed", "zeditor"],
            &[host_file(BaseFolder::Config, "zed/settings.json", "zed")],
            PlaceholderSyntax::None,
        )
    },
    plain_host(
        "windsurf",
        "Windsurf",
        &["windsurf"],
        &[
            host_file(BaseFolder::Home, ".codeium/windsurf/mcp_config.json", ".codeium/windsurf"),
            existing(BaseFolder::Home, ".codeium/mcp_config.json"),
        ],
        PlaceholderSyntax::Env,
    ),
    Host {
        format: HostFileFormat::Toml,
        // Without it, Codex runs one call at a time.
        entry: &[("command", EntryValue::Shim), ("supports_parallel_tool_calls", EntryValue::True)],
        timeout: TimeoutUnit::Nothing,
        ..plain_host(
            "codex",
            "Codex",
            &["codex"],
            &[host_file(BaseFolder::Variable("CODEX_HOME", ".codex"), "config.toml", "")],
            PlaceholderSyntax::None,
        )
    },
    Host {
        rules: &[existing(BaseFolder::Home, ".gemini/policies/*.toml")],
        ..plain_host(
            "gemini",
            "Gemini CLI",
            &["gemini"],
            &[host_file(BaseFolder::Home, ".gemini/settings.json", ".gemini")],
            PlaceholderSyntax::Dollar,
        )
    },
    // A fork of Gemini CLI, with the same files in another folder.
    plain_host(
        "qwen",
        "Qwen Code",
        &["qwen"],
        &[host_file(BaseFolder::Home, ".qwen/settings.json", ".qwen")],
        PlaceholderSyntax::Dollar,
    ),
    Host {
        timeout: TimeoutUnit::Seconds,
        ..plain_host(
            "cline",
            "Cline",
            &["cline"],
            &[
                host_file(BaseFolder::Home, ".cline/data/settings/cline_mcp_settings.json", ".cline/data"),
                existing(BaseFolder::Home, ".cline/mcp.json"),
                host_file(
                    BaseFolder::Application,
                    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                    "Code/User/globalStorage/saoudrizwan.claude-dev",
                ),
                host_file(
                    BaseFolder::Application,
                    "Cursor/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                    "Cursor/User/globalStorage/saoudrizwan.claude-dev",
                ),
            ],
            PlaceholderSyntax::Env,
        )
    },
    Host {
        timeout: TimeoutUnit::Seconds,
        ..plain_host(
            "roo",
            "Roo Code",
            &[],
            &[
                host_file(
                    BaseFolder::Application,
                    "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "Code/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
                host_file(
                    BaseFolder::Application,
                    "VSCodium/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "VSCodium/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
                host_file(
                    BaseFolder::Application,
                    "Cursor/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                    "Cursor/User/globalStorage/rooveterinaryinc.roo-cline",
                ),
            ],
            PlaceholderSyntax::Env,
        )
    },
    Host {
        format: HostFileFormat::Yaml,
        entry: &[("name", EntryValue::Text(super::KEY)), ("command", EntryValue::Shim)],
        timeout: TimeoutUnit::Nothing,
        rules: &[existing(BaseFolder::Variable("CONTINUE_GLOBAL_DIR", ".continue"), "permissions.yaml")],
        ..plain_host(
            "continue",
            "Continue",
            &["cn"],
            &[host_file(BaseFolder::Variable("CONTINUE_GLOBAL_DIR", ".continue"), "config.yaml", "")],
            PlaceholderSyntax::Secrets,
        )
    },
    Host {
        alternatives: true,
        format: HostFileFormat::Json { key: "mcp", projects: false },
        entry: &[
            ("type", EntryValue::Text("local")),
            ("command", EntryValue::Argv),
            ("enabled", EntryValue::True),
        ],
        // Its `timeout` limits fetching the list of tools.
        timeout: TimeoutUnit::Nothing,
        ..plain_host(
            "opencode",
            "OpenCode",
            &["opencode"],
            &[
                host_file(BaseFolder::Config, "opencode/opencode.json", "opencode"),
                existing(BaseFolder::Config, "opencode/opencode.jsonc"),
                existing(BaseFolder::Config, "opencode/config.json"),
            ],
            PlaceholderSyntax::Braces,
        )
    },
    plain_host(
        "junie",
        "Junie (JetBrains)",
        &["junie"],
        &[host_file(BaseFolder::Home, ".junie/mcp/mcp.json", ".junie")],
        PlaceholderSyntax::None,
    ),
    Host {
        format: HostFileFormat::Json { key: "servers", projects: false },
        entry: STDIO,
        ..plain_host("visual-studio", "Visual Studio", &[], &[], PlaceholderSyntax::Env)
    },
    plain_host("jetbrains", "JetBrains AI Assistant", &[], &[], PlaceholderSyntax::None),
];

pub fn by_id(id: &str) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.id == id)
}

/// Other names that people type for a host.
const ALIASES: [(&str, &str); 13] = [
    ("code", "vscode"),
    ("vs-code", "vscode"),
    ("visual-studio-code", "vscode"),
    ("vscodium", "vscode"),
    ("vs", "visual-studio"),
    ("gemini-cli", "gemini"),
    ("qwen-code", "qwen"),
    ("roo-code", "roo"),
    ("codex-cli", "codex"),
    ("github-copilot", "copilot-cli"),
    ("copilot", "copilot-cli"),
    ("open-code", "opencode"),
    ("ai-assistant", "jetbrains"),
];

/// The hosts that a typed name may mean: the one with this id or alias, else all whose id or name begins with it.
pub fn meant_by(typed: &str) -> Vec<&'static Host> {
    let plain = |text: &str| text.trim().to_lowercase().replace([' ', '_'], "-");
    let typed = plain(typed);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == typed).map(|(_, id)| *id);
    if let Some(host) = by_id(alias.unwrap_or(&typed)) {
        return vec![host];
    }
    let is_meant = |host: &&Host| host.id.starts_with(&typed) || plain(host.name).starts_with(&typed);
    if typed.is_empty() { Vec::new() } else { HOSTS.iter().filter(is_meant).collect() }
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

    #[test]
    fn a_host_is_known_by_the_beginning_of_its_name() {
        let meant = |typed: &str| meant_by(typed).iter().map(|host| host.id).collect::<Vec<_>>();
        for (typed, ids) in [
            ("cursor", &["cursor"][..]),
            ("Cursor", &["cursor"]),
            ("claude", &["claude-code", "claude-desktop"]),
            ("claude code", &["claude-code"]),
            ("claude-d", &["claude-desktop"]),
            ("vs-code", &["vscode"]),
            ("gem", &["gemini"]),
            ("copilot", &["copilot-cli"]),
            ("qwen-code", &["qwen"]),
            ("jetb", &["jetbrains"]),
            ("co", &["copilot-cli", "codex", "continue"]),
            ("vim", &[]),
            ("", &[]),
        ] {
            assert_eq!(meant(typed), ids, "{typed}");
        }
        for (_, id) in ALIASES {
            assert!(by_id(id).is_some(), "{id}");
        }
    }
}
