//! Advice on suites that cost more than they save (pure).

/// With fewer sessions, usage is not significant.
const MIN_SESSIONS: u64 = 3;

/// The token counts of one suite.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBalance {
    pub(super) tools: usize,
    /// Tokens of its tools if each were listed, and of the suite's one tool.
    pub(super) listed: u64,
    pub(super) shown: u64,
    /// Tokens of a full introspection.
    pub(super) introspection: u64,
    pub(super) sessions: u64,
    /// Tokens that models fetched from it in all those sessions.
    pub(super) introspected: u64,
}

impl TokenBalance {
    /// Tokens that one session saves before it introspects anything.
    pub(super) fn saves(self) -> i64 {
        signed(self.listed) - signed(self.shown)
    }

    /// Tokens that all sessions saved, net of what they fetched.
    pub(super) fn net(self) -> i64 {
        signed(self.sessions) * self.saves() - signed(self.introspected)
    }

    /// A hint for the user, if the suite is not worth it. `child` is the name of its server.
    pub(super) fn advice(self, child: &str) -> Option<String> {
        let tools =
            if self.tools == 1 { "tool takes".to_owned() } else { format!("{} tools take", self.tools) };
        let instead = format!(
            "`suites.{child}.show: \"tools\"` shows its own tools instead; or name it in the config of the editor that \
             uses it, as `switchboard --child {child}`"
        );
        if self.saves() < 0 {
            return Some(format!(
                "the suite of `{child}` is so small that it costs more than it saves: its {tools} {} tokens, the suite {}; \
                 {instead}",
                self.listed, self.shown
            ));
        }
        // If one session in four introspects the suite, the saving is gone.
        if 4 * self.saves() < signed(self.introspection) {
            return Some(format!(
                "the suite of `{child}` is so small that it costs more as soon as a model introspects it: it spares {} tokens where \
                 it is left alone, and costs {} where it is introspected; {instead}",
                self.saves(),
                signed(self.introspection) - self.saves()
            ));
        }
        if self.sessions >= MIN_SESSIONS && self.net() < 0 {
            let (sessions, spared) = (self.sessions, signed(self.sessions) * self.saves());
            return Some(format!(
                "the suite of `{child}` is introspected so often that it costs more than it saves: {sessions} sessions were spared {spared} \
                 tokens and fetched {}; an editor that uses it all the time is better off with \
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

    fn advice_text(balance: TokenBalance) -> String {
        balance.advice("c").unwrap()
    }

    #[test]
    fn advice_is_given_only_for_a_suite_that_costs() {
        assert_eq!((FAIR.saves(), FAIR.net(), FAIR.advice("c")), (900, 1800, None));
        let even = TokenBalance { introspected: 2700, ..FAIR };
        assert_eq!((even.net(), even.advice("c")), (0, None));
        let busy = TokenBalance { introspected: 2701, ..FAIR };
        assert!(advice_text(busy).contains("3 sessions were spared 2700 tokens and fetched 2701"));
        assert_eq!(TokenBalance { sessions: 2, ..busy }.advice("c"), None);
    }

    #[test]
    fn advice_for_a_small_suite_names_the_child_option() {
        let small = TokenBalance { tools: 1, listed: 99, ..FAIR };
        assert!(advice_text(small).contains("its tool takes 99 tokens, the suite 100"));
        let slight = TokenBalance { tools: 2, listed: 120, introspection: 110, ..FAIR };
        assert!(advice_text(slight).contains("spares 20 tokens where it is left alone, and costs 90"));
        assert!(advice_text(small).contains("costs more than it saves: "));
        assert!(advice_text(slight).contains("costs more as soon as a model introspects it: "));
        for one in [small, slight] {
            assert!(advice_text(one).starts_with("the suite of `c` is so small that it costs more "));
            assert!(advice_text(one).ends_with("as `switchboard --child c`"));
        }
    }
}
