//! What eight hosts leave of a long tool result before the model reads it.
//!
//! Each limit is read in the host's own program or, where that is not readable, the strictest one that fits what was
//! measured with that host. The test at the end cuts the answers of before with these limits and finds the numbers that
//! were measured in the real hosts.

/// How a host cuts a text that is too long for it.
#[derive(Debug, Clone, Copy)]
pub enum Cut {
    Never,
    /// Above `limit` characters only the beginning is shown.
    Preview {
        limit: usize,
        kept: usize,
    },
    /// Above the sum of both: so many characters of the beginning and of the end.
    Ends {
        head: usize,
        tail: usize,
    },
    /// As [`Cut::Ends`], of the text as it is written in a JSON string.
    EscapedEnds {
        head: usize,
        tail: usize,
    },
    /// Whole lines from the beginning, up to so many bytes.
    Lines {
        bytes: usize,
    },
    /// Above `limit`: a fifth of it from the beginning and the rest from the end, and of a single line the beginning only.
    LineEnds {
        limit: usize,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub name: &'static str,
    pub cut: Cut,
    /// Where the limit is known from.
    pub source: &'static str,
}

pub const HOSTS: [Host; 8] = [
    Host {
        name: "Claude Code",
        cut: Cut::Preview { limit: 26_388, kept: 2_000 },
        source: "2.1.325, measured: 26,388 bytes passed whole, of 74,337 a file and a preview of 2 KB; its own limit lies between",
    },
    Host {
        name: "Codex",
        cut: Cut::Ends { head: 6_000, tail: 6_000 },
        source: "0.166.0: 10,000 bytes for a model that it does not know, half from each end (10,000 tokens for those it knows); the factor of 1.2 is an assumption that fits what was measured",
    },
    Host {
        name: "Gemini CLI",
        cut: Cut::Ends { head: 8_000, tail: 32_000 },
        source: "0.61.0: DEFAULT_TRUNCATE_TOOL_OUTPUT_THRESHOLD 40,000 characters, a fifth of them from the beginning",
    },
    Host {
        name: "OpenCode",
        cut: Cut::Lines { bytes: 51_200 },
        source: "1.18.33: Truncate.output, 2,000 lines or 51,200 bytes, whole lines",
    },
    Host {
        name: "Qwen Code",
        cut: Cut::LineEnds { limit: 25_000 },
        source: "0.15.10: truncateAndSaveToFile, 25,000 characters or 1,000 lines",
    },
    Host {
        name: "Copilot CLI",
        cut: Cut::Preview { limit: 17_321, kept: 500 },
        source: "1.0.102, measured: 17,321 bytes passed whole, of 26,388 a preview of 500 characters; its own limit lies between",
    },
    Host {
        name: "Cline",
        cut: Cut::EscapedEnds { head: 4_000, tail: 4_000 },
        source: "CLI 3.0.65: CLINE_MESSAGE_BUILDER_MAX_TOOL_RESULT_CHARS 8,000, of the result as JSON, half from each end",
    },
    Host { name: "Continue", cut: Cut::Never, source: "CLI 1.5.47: only results of its own tools are cut" },
];

impl Cut {
    /// What the model reads: parts of the text, unescaped.
    fn kept(self, text: &str) -> Vec<String> {
        let length = text.chars().count();
        match self {
            Self::Preview { limit, kept } if length > limit => vec![first(text, kept)],
            Self::Ends { head, tail } if length > head + tail => vec![first(text, head), last(text, tail)],
            Self::EscapedEnds { head, tail } => {
                let escaped = serde_json::to_string(text).unwrap();
                Self::Ends { head, tail }.kept(&escaped[1..escaped.len() - 1])
            }
            Self::Lines { bytes } => {
                let mut left = bytes;
                let fits = |line: &&str| {
                    let fits = line.len() < left;
                    left = left.saturating_sub(line.len() + 1);
                    fits
                };
                vec![text.lines().take_while(fits).collect::<Vec<_>>().join("\n")]
            }
            Self::LineEnds { limit } if length > limit => {
                let head = first(text, limit / 5);
                match text.contains('\n') {
                    true => vec![head, last(text, limit - limit / 5)],
                    false => vec![head],
                }
            }
            _ => vec![text.to_owned()],
        }
    }

    /// How many of these pieces of the text the model reads as a whole.
    pub fn count(self, text: &str, pieces: &[String]) -> usize {
        let kept = self.kept(text);
        let is_escaped = matches!(self, Self::EscapedEnds { .. });
        let written = |piece: &String| match is_escaped {
            true => serde_json::to_string(piece).unwrap().trim_matches('"').to_owned(),
            false => piece.clone(),
        };
        pieces.iter().map(written).filter(|piece| kept.iter().any(|part| part.contains(piece))).count()
    }
}

fn first(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

fn last(text: &str, chars: usize) -> String {
    let skipped = text.chars().count().saturating_sub(chars);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::before;
    use crate::finding::recorded::RecordedServer;

    /// Measured in the real hosts: subtools of which the model read at least the name. Codex writes a line about the
    /// cut into the text, too, which costs it one name of devtools.
    const MEASURED: [(&str, [usize; 8]); 3] = [
        ("devtools", [32, 14, 32, 32, 5, 1, 8, 32]),
        ("playwright", [25, 17, 25, 25, 25, 25, 11, 25]),
        ("notion", [0, 4, 14, 0, 2, 1, 2, 24]),
    ];

    #[test]
    fn the_limits_give_what_was_measured_in_the_real_hosts() {
        for (id, measured) in MEASURED {
            let server = RecordedServer::read(id);
            let text = before::introspect(&server, None);
            let names: Vec<String> =
                server.names().iter().map(|name| format!(r#""name":"{name}""#)).collect();
            for (host, measured) in HOSTS.iter().zip(measured) {
                let counted = host.cut.count(&text, &names);
                // One apart: hosts add words of their own, and a name may be cut in the middle.
                assert!(
                    counted.abs_diff(measured) <= 1,
                    "{id} in {}: {counted}, measured {measured}",
                    host.name
                );
            }
        }
    }
}
