//! The evil child: everything that a child MCP server can do wrong, one behaviour at a time.
//!
//! A behaviour is a well-behaved server ([`serve::serve`]) with one deviation. It uses plain threads and
//! blocking pipes, no async runtime, so that tests see what a real child could do.

use peer::Peer;

mod answers;
mod asking;
mod dying;
mod flood;
mod framing;
mod grandchild;
mod handshake;
mod lists;
mod peer;
mod script;
mod serve;
mod tools;

/// One behaviour.
#[derive(Clone, Copy)]
pub struct Behaviour {
    pub name: &'static str,
    pub says: &'static str,
    play: fn(Peer, &[&str]),
}

impl Behaviour {
    const fn new(name: &'static str, says: &'static str, play: fn(Peer, &[&str])) -> Self {
        Self { name, says, play }
    }

    pub fn run(&self, args: &[&str]) {
        (self.play)(Peer::new(), args);
    }
}

const WELL_BEHAVED: &[Behaviour] =
    &[Behaviour::new("echo", "well-behaved, with all the tools of `evil/tools.rs`", |peer, _| {
        serve::serve(&peer, serve::usual);
    })];

pub fn behaviours() -> impl Iterator<Item = Behaviour> {
    [
        WELL_BEHAVED,
        handshake::TABLE,
        lists::TABLE,
        framing::TABLE,
        answers::TABLE,
        asking::TABLE,
        dying::TABLE,
        flood::TABLE,
        grandchild::TABLE,
        script::TABLE,
    ]
    .into_iter()
    .flatten()
    .copied()
}

pub fn find(name: &str) -> Option<Behaviour> {
    behaviours().find(|behaviour| behaviour.name == name)
}

/// The argument at index `at` as a number.
fn number(args: &[&str], at: usize, default: u64) -> u64 {
    args.get(at).map_or(default, |text| text.parse().expect("a number"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn behaviour_names_are_unique() {
        let names: Vec<_> = super::behaviours().map(|behaviour| behaviour.name).collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
        assert!(names.len() >= 60, "only {} behaviours", names.len());
    }
}
