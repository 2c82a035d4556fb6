//! The word about a suite that costs more than it saves (pure).

/// Fewer sessions prove nothing.
const MIN_SESSIONS: u64 = 3;

/// What is known of one suite, in tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBalance {
    pub(super) tools: usize,
    /// What its tools take where each is listed, and what the suite takes.
    pub(super) listed: u64,
    pub(super) shown: u64,
    /// What a model fetches that asks for all of it.
    pub(super) introspection: u64,
    pub(super) sessions: u64,
    /// What models fetched of it in all those sessions.
    pub(super) introspected: u64,
}

impl TokenBalance {
    /// What one session is spared before it introspects anything.
    pub(super) fn saves(self) -> i64 {
        signed(self.listed) - signed(self.shown)
    }

    /// What all sessions were spared, net of what they fetched.
    pub(super) fn net(self) -> i64 {
        signed(self.sessions) * self.saves() - signed(self.introspected)
    }

    /// What a person should know of it. `child` is what `--child` takes.
    pub(super) fn advice(self, suite: &str, child: &str) -> Option<String> {
        let tools =
            if self.tools == 1 { "tool takes".to_owned() } else { format!("{} tools take", self.tools) };
        let instead =
            format!("it is cheaper in the config of the host that uses it, as `switchboard --child {child}`");
        if self.saves() < 0 {
            return Some(format!(
                "`{suite}` is so small that it costs more than it saves: its {tools} {} tokens, the suite {}; \
                 {instead}",
                self.listed, self.shown
            ));
        }
        // A session in four that introspects it, and nothing is left.
        if 4 * self.saves() < signed(self.introspection) {
            return Some(format!(
                "`{suite}` is so small that it costs more as soon as a model introspects it: it spares {} tokens where \
                 it is left alone, and costs {} where it is introspected; {instead}",
                self.saves(),
                signed(self.introspection) - self.saves()
            ));
        }
        if self.sessions >= MIN_SESSIONS && self.net() < 0 {
            let (sessions, spared) = (self.sessions, signed(self.sessions) * self.saves());
            return Some(format!(
                "`{suite}` is introspected so often that it costs more than it saves: {sessions} sessions were spared {spared} \
                 tokens and fetched {}; a host that uses it all the time is better off with \
                 `switchboard --child {child}`",
                self.introspected
            ));
        }
        None
    }
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIR: TokenBalance = TokenBalance {
        tools: 12,
        listed: 1000,
        shown: 100,
        introspection: 950,
        sessions: 3,
        introspected: 900,
    };

    fn word(balance: TokenBalance) -> String {
        balance.advice("s", "c").unwrap()
    }

    #[test]
    fn only_a_suite_that_costs_is_spoken_of() {
        assert_eq!((FAIR.saves(), FAIR.net(), FAIR.advice("s", "c")), (900, 1800, None));
        let even = TokenBalance { introspected: 2700, ..FAIR };
        assert_eq!((even.net(), even.advice("s", "c")), (0, None));
        let busy = TokenBalance { introspected: 2701, ..FAIR };
        assert!(word(busy).contains("3 sessions were spared 2700 tokens and fetched 2701"));
        assert_eq!(TokenBalance { sessions: 2, ..busy }.advice("s", "c"), None);
    }

    #[test]
    fn a_small_suite_is_told_where_it_is_cheaper() {
        let small = TokenBalance { tools: 1, listed: 99, ..FAIR };
        assert!(word(small).contains("its tool takes 99 tokens, the suite 100"));
        let slight = TokenBalance { tools: 2, listed: 120, introspection: 110, ..FAIR };
        assert!(word(slight).contains("spares 20 tokens where it is left alone, and costs 90"));
        assert!(word(small).contains("costs more than it saves: "));
        assert!(word(slight).contains("costs more as soon as a model introspects it: "));
        for one in [small, slight] {
            assert!(word(one).starts_with("`s` is so small that it costs more "));
            assert!(word(one).ends_with("as `switchboard --child c`"));
        }
    }
}
