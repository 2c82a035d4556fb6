//! Finds the servers that hosts still start themselves, and whether Switchboard is set up.

use std::path::{Path, PathBuf};

use switchboard_definitions::definition::shown_url;
use switchboard_definitions::document::Problem;
use switchboard_definitions::expand::Template;
use switchboard_definitions::files::text::read_text;

use super::machine::{Evidence, Machine};
use super::{Host, HostFileContents, KEY, ServerEntry, is_off, url, words};

/// A host on this machine.
#[derive(Debug)]
pub struct SurveyedHost {
    pub host: &'static Host,
    pub by: Evidence,
    pub files: Vec<SurveyedFile>,
}

/// One of its files, which may not exist yet.
#[derive(Debug)]
pub struct SurveyedFile {
    pub path: PathBuf,
    /// The error says why the file cannot be read.
    pub state: Result<HostFileState, Problem>,
}

#[derive(Debug, Default)]
pub struct HostFileState {
    /// Servers that the host starts or connects to itself.
    pub servers: Vec<HostServer>,
    /// The entry that starts Switchboard.
    pub switchboard: Option<SwitchboardEntry>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct HostServer {
    pub name: String,
    /// Claude Code has servers for a single project.
    pub project: Option<PathBuf>,
    /// The program or the URL, or nothing; never arguments, which may be secrets.
    pub command: String,
    /// Whether it is disabled in the host.
    pub is_off: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SwitchboardEntry {
    pub command: PathBuf,
    /// Whether that program exists.
    pub exists: bool,
    pub is_off: bool,
}

/// Surveys every host on this machine. Read-only.
pub fn survey(machine: &Machine) -> Vec<SurveyedHost> {
    let look = |present: super::machine::InstalledHost| {
        let mut paths = machine.existing(present.host);
        if paths.is_empty() {
            paths = machine.targets(present.host);
        }
        let files =
            paths.into_iter().map(|path| SurveyedFile { state: file_state(present.host, &path), path });
        SurveyedHost { host: present.host, by: present.by, files: files.collect() }
    };
    machine.present().into_iter().map(look).collect()
}

/// What one file of a host says.
pub fn file_state(host: &Host, path: &Path) -> Result<HostFileState, Problem> {
    let Some(text) = read_text(path).map_err(|why| Problem::of(path, why))? else {
        return Ok(HostFileState::default());
    };
    let HostFileContents { entries, .. } = host.format.read(&text).map_err(|refusal| refusal.of(path))?;
    let (ours, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_ours);
    let switchboard = ours.into_iter().find(|entry| entry.project.is_none()).map(|entry| {
        let command = PathBuf::from(words(&entry.value).into_iter().next().unwrap_or_default());
        SwitchboardEntry { exists: command.is_file(), command, is_off: is_off(&entry.value) }
    });
    Ok(HostFileState { servers: others.into_iter().map(server).collect(), switchboard })
}

/// Whether an entry starts Switchboard, under whatever name.
pub fn is_ours(entry: &ServerEntry) -> bool {
    let words = words(&entry.value);
    let program = words.first().and_then(|word| Path::new(word).file_name());
    program.is_some_and(|program| program == KEY)
}

fn server(entry: ServerEntry) -> HostServer {
    // Arguments without a command start nothing.
    let entry_of = entry.value.get("transport").filter(|nested| nested.is_object()).unwrap_or(&entry.value);
    let has_command = !entry_of["command"].is_null();
    let command = words(&entry.value).into_iter().next().filter(|_| has_command);
    // The path and the query of a URL may contain secrets.
    let place = |url: &str| shown_url(&Template::text(url.split(['?', '#']).next().unwrap_or_default()));
    let command = command.or_else(|| url(&entry.value).map(place));
    HostServer {
        is_off: is_off(&entry.value),
        command: command.unwrap_or_default(),
        name: entry.name,
        project: entry.project,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn survey_finds_a_hosts_own_servers() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(
            ".cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["--token", "t"]},
                "b": {"url": "https://h/mcp?key=k", "disabled": true}, "switchboard": {"command": "/no/switchboard"}}}"#,
        );
        write(".gemini/settings.json", "{");
        std::fs::create_dir(folder.path().join(".junie")).unwrap();
        let machine = Machine {
            home: folder.path().to_owned(),
            variables: BTreeMap::new(),
            path: Vec::new(),
            is_mac: false,
        };
        let found = survey(&machine);
        let ids: Vec<_> = found.iter().map(|surveyed| (surveyed.host.id, surveyed.by)).collect();
        assert_eq!(
            ids,
            [("cursor", Evidence::File), ("gemini", Evidence::File), ("junie", Evidence::Folder)]
        );
        let state = found[0].files[0].state.as_ref().unwrap();
        let server = |name: &str, command: &str, is_off| HostServer {
            name: name.to_owned(),
            project: None,
            command: command.to_owned(),
            is_off,
        };
        assert_eq!(state.servers, [server("a", "npx", false), server("b", "https://h/mcp", true)]);
        let expect = SwitchboardEntry { command: "/no/switchboard".into(), exists: false, is_off: false };
        assert_eq!(state.switchboard, Some(expect));
        assert_eq!(found[1].files[0].state.as_ref().unwrap_err().at, Some((1, 1)));
        assert!(found[2].files[0].state.as_ref().is_ok_and(|state| state.servers.is_empty()));
    }
}
