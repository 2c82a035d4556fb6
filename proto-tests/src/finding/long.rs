//! Whole definitions that are too long for some hosts.

use super::hosts::HOSTS;
use super::recorded::RecordedServer;

/// The shortest result that a host of [`HOSTS`] cuts, in bytes.
pub const SHORTEST_CUT: usize = 8_000;

/// Subtools whose definition, as `introspect` with `subtool` gives it, is longer than [`SHORTEST_CUT`].
#[derive(Debug)]
pub struct LongDefinitions {
    /// How many there are in all.
    pub definitions: usize,
    pub long: Vec<LongDefinition>,
}

#[derive(Debug)]
pub struct LongDefinition {
    pub server: String,
    pub subtool: String,
    pub bytes: usize,
    /// The hosts in which it does not reach the model whole.
    pub cut_by: Vec<&'static str>,
}

impl LongDefinitions {
    pub fn of(
        servers: &[RecordedServer],
        mut definition: impl FnMut(&RecordedServer, &str) -> String,
    ) -> Self {
        let (mut definitions, mut long) = (0, Vec::new());
        for server in servers {
            for tool in &server.tools {
                let text = definition(server, &tool.name);
                definitions += 1;
                if text.len() <= SHORTEST_CUT {
                    continue;
                }
                let is_cut =
                    |host: &&super::hosts::Host| host.cut.count(&text, std::slice::from_ref(&text)) == 0;
                let cut_by = HOSTS.iter().filter(is_cut).map(|host| host.name).collect();
                long.push(LongDefinition {
                    server: server.id.clone(),
                    subtool: tool.name.clone(),
                    bytes: text.len(),
                    cut_by,
                });
            }
        }
        Self { definitions, long }
    }
}
