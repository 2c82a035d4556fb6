//! The protocol's revisions, oldest first.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    pub(super) const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    pub(super) const LAST_LEGACY: Self = Self::V2025_11_25;
    pub(super) const MODERN: Self = Self::V2026_07_28;

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub(super) fn is_modern(self) -> bool {
        self >= Self::MODERN
    }

    /// Audio content, tool annotations, the `completions` capability, a progress `message`.
    pub(super) fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// `structuredContent`, `outputSchema`, `title`, `resource_link`.
    pub(super) fn has_structure(self) -> bool {
        self >= Self::V2025_06_18
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order_agree() {
        assert!(
            Revision::ALL.windows(2).all(|pair| pair[0] < pair[1] && pair[0].as_str() < pair[1].as_str())
        );
        assert!(Revision::ALL.iter().all(|revision| Revision::parse(revision.as_str()) == Some(*revision)));
        assert_eq!(Revision::parse("2026-07-29"), None);
    }
}
