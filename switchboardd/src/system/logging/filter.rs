//! Selects the events to log: ours from the requested level on, those of libraries only if they are warnings
//! or requested by name. A library may log what our own lines cause (a change in a watched folder, a poll of
//! a socket), and each of those lines would cause the next.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::Registry;

pub(super) type LogFilter = Box<dyn Filter<Registry> + Send + Sync>;

/// Parses a level or a list of directives. A single word that is no level is rejected: it would be read as a
/// target and silence everything else.
pub(super) fn parse_filter(wanted: &str) -> Option<LogFilter> {
    let known = wanted.contains(['=', ',']) || is_level(wanted);
    let own: EnvFilter = known.then(|| wanted.parse().ok()).flatten()?;
    let libraries: EnvFilter = for_libraries(wanted).parse().ok()?;
    let own = own.and(filter_fn(is_own));
    let libraries = libraries.and(filter_fn(|meta| !is_own(meta)));
    Some(own.or(libraries).boxed())
}

fn is_own(meta: &Metadata<'_>) -> bool {
    meta.module_path().is_some_and(|path| path.starts_with("switchboard"))
}

fn is_level(word: &str) -> bool {
    ["off", "error", "warn", "info", "debug", "trace"].iter().any(|level| level.eq_ignore_ascii_case(word))
}

/// The same directives, but a global level is lowered to warnings for libraries.
fn for_libraries(wanted: &str) -> String {
    let one = |directive: &str| match directive.trim().parse::<LevelFilter>() {
        Ok(level) => level.min(LevelFilter::WARN).to_string(),
        Err(_) => directive.to_owned(),
    };
    wanted.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_levels_and_directives_are_taken() {
        for good in ["debug", "INFO", "http=trace,info"] {
            assert!(parse_filter(good).is_some(), "{good}");
        }
        for bad in ["bogus", "", "inf"] {
            assert!(parse_filter(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_level_for_everybody_means_warnings_for_libraries() {
        for (wanted, libraries) in [
            ("trace", "warn"),
            ("INFO", "warn"),
            ("error", "error"),
            ("off", "off"),
            ("debug,notify=trace", "warn,notify=trace"),
            ("notify=trace", "notify=trace"),
        ] {
            assert_eq!(for_libraries(wanted), libraries, "{wanted}");
        }
    }
}
