//! Finds the known name that a mistyped one was most likely meant to be.

/// Known names are shorter, and comparing long ones is costly.
const MAX_NAME: usize = 128;

/// `None` if no known name is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    known
        .filter(|candidate| candidate.len() <= MAX_NAME)
        .map(|candidate| (strsim::osa_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(length) / 3 + 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: Option<&str>) {
        assert_eq!(nearest(name, ["command", "suiteName", "rpcMs"].into_iter()), expect, "{name}");
    }

    #[test]
    fn typing_mistakes_are_recognised_and_strangers_are_not() {
        check("comand", Some("command"));
        check("SuiteNam", Some("suiteName"));
        check("rcpMs", Some("rpcMs"));
        check("zebra", None);
    }
}
