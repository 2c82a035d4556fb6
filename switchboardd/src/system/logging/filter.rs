//! Selects the events to log: ours from the requested level on, those of libraries only if they are warnings
//! or requested by name. A library may log what our own lines cause (a change in a watched folder, a poll of
//! a socket), and each of those lines would cause the next.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter};

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// Which events are logged, by target and level.
#[derive(Debug)]
pub(super) struct LogFilter {
    own: Targets,
    libraries: Targets,
    /// The most verbose level of both, so that events beyond it cost one comparison.
    most: LevelFilter,
}

/// Parses a level or a list of directives: `LEVEL`, `TARGET=LEVEL` or, in a list, `TARGET`. A single word that
/// is no level is rejected: it would be read as a target and silence everything else.
pub(super) fn parse_filter(wanted: &str) -> Result<LogFilter, String> {
    let no_level = |word: &str| format!("`{word}` is not a log level ({})", LEVELS.join(", "));
    if !wanted.contains(['=', ',']) && !is_level(wanted) {
        return Err(no_level(wanted));
    }
    let mut filter = LogFilter { own: Targets::new(), libraries: Targets::new(), most: LevelFilter::OFF };
    let directives = wanted.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    for directive in directives.clone() {
        if directive.contains(['[', ']', '{', '}']) {
            return Err(format!(
                "`{directive}` names a span or a field, and a log filter has targets and levels only"
            ));
        }
        let level = match directive.split_once('=') {
            Some((target, word)) => {
                let level: LevelFilter = word.trim().parse().map_err(|_| no_level(word.trim()))?;
                filter.add(target.trim(), level);
                level
            }
            None => match directive.parse::<LevelFilter>() {
                Ok(level) => {
                    filter.own = filter.own.with_default(level);
                    filter.libraries = filter.libraries.with_default(level.min(LevelFilter::WARN));
                    level
                }
                Err(_) => {
                    filter.add(directive, LevelFilter::TRACE);
                    LevelFilter::TRACE
                }
            },
        };
        filter.most = filter.most.max(level);
    }
    if directives.count() == 0 { Err(no_level(wanted)) } else { Ok(filter) }
}

impl LogFilter {
    fn add(&mut self, target: &str, level: LevelFilter) {
        for targets in [&mut self.own, &mut self.libraries] {
            *targets = std::mem::take(targets).with_target(target, level);
        }
    }

    fn is_logged(&self, meta: &Metadata<'_>) -> bool {
        let is_own = meta.module_path().is_some_and(|path| path.starts_with("switchboard"));
        let targets = if is_own { &self.own } else { &self.libraries };
        targets.would_enable(meta.target(), meta.level())
    }
}

impl<S: Subscriber> Filter<S> for LogFilter {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.is_logged(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.is_logged(meta) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn only_levels_and_directives_are_taken() {
        for good in ["debug", "INFO", "http=trace,info", "info, http = debug", "info,", "warn,http"] {
            assert!(parse_filter(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("bogus", "`bogus` is not a log level (off, error, warn, info, debug, trace)"),
            ("", "`` is not a log level"),
            ("inf", "`inf` is not a log level"),
            (",", "`,` is not a log level"),
            ("http=loud", "`loud` is not a log level"),
            ("info,http=debug=trace", "`debug=trace` is not a log level"),
            ("info,[call]=trace", "`[call]=trace` names a span or a field"),
        ] {
            let said = parse_filter(bad).unwrap_err();
            assert!(said.starts_with(why), "{bad}: {said}");
        }
    }

    #[test]
    fn a_level_for_everybody_means_warnings_for_libraries() {
        // The last level that is logged of ours, of a library, and of the library `notify`.
        for (wanted, own, library, notify) in [
            ("trace", Some(Level::TRACE), Some(Level::WARN), Some(Level::WARN)),
            ("INFO", Some(Level::INFO), Some(Level::WARN), Some(Level::WARN)),
            ("error", Some(Level::ERROR), Some(Level::ERROR), Some(Level::ERROR)),
            ("off", None, None, None),
            ("debug,notify=trace", Some(Level::DEBUG), Some(Level::WARN), Some(Level::TRACE)),
            ("notify=debug", None, None, Some(Level::DEBUG)),
            ("notify,info", Some(Level::INFO), Some(Level::WARN), Some(Level::TRACE)),
        ] {
            let filter = parse_filter(wanted).unwrap();
            let last = |targets: &Targets, target: &str| {
                [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR]
                    .into_iter()
                    .find(|level| targets.would_enable(target, level))
            };
            assert_eq!(last(&filter.own, "http"), own, "{wanted}");
            assert_eq!(last(&filter.libraries, "hyper"), library, "{wanted}");
            assert_eq!(last(&filter.libraries, "notify::inotify"), notify, "{wanted}");
        }
    }
}
