//! The command line.

use super::revision::Revision;

/// Which of MCP's two eras the child speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Era {
    /// With `initialize` only.
    Legacy,
    /// With `_meta` in every request only.
    Modern,
    /// Either, per request.
    #[default]
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    pub era: Era,
    /// The revision that every `initialize` is answered with.
    pub(super) revision: Option<Revision>,
    /// The page size of lists.
    pub(super) page: Option<usize>,
}

impl Options {
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            match flag.as_str() {
                "--era" => options.era = era(&value)?,
                "--revision" => options.revision = Some(legacy_revision(&value)?),
                "--page" => options.page = Some(page(&value)?),
                _ => return Err(format!("unknown flag `{flag}`")),
            }
        }
        match (options.era, options.revision) {
            (Era::Modern, Some(_)) => Err("`--revision` is for the legacy era".into()),
            _ => Ok(options),
        }
    }
}

fn era(text: &str) -> Result<Era, String> {
    match text {
        "legacy" => Ok(Era::Legacy),
        "modern" => Ok(Era::Modern),
        "both" => Ok(Era::Both),
        _ => Err(format!("`{text}` is no era: legacy, modern or both")),
    }
}

fn legacy_revision(text: &str) -> Result<Revision, String> {
    Revision::parse(text)
        .filter(|revision| *revision < Revision::MODERN)
        .ok_or_else(|| format!("`{text}` is no legacy revision"))
}

fn page(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|page| *page > 0).ok_or_else(|| format!("`{text}` is no page size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn both_eras_are_the_default() {
        assert_eq!(parse("").unwrap().era, Era::Both);
        assert_eq!(parse("--era modern").unwrap().era, Era::Modern);
        assert_eq!(
            parse("--era legacy --revision 2024-11-05").unwrap().revision,
            Revision::parse("2024-11-05")
        );
        assert_eq!(parse("--page 3").unwrap().page, Some(3));
    }

    #[test]
    fn invalid_options_are_refused() {
        for line in
            ["--era old", "--era", "--revision 2026-07-28", "--era modern --revision 2025-11-25", "--page 0"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
