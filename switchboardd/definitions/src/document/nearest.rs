//! Finds the known name that a mistyped one was most likely meant to be.

/// Known names are shorter, and comparing long ones is costly.
const MAX_NAME: usize = 128;

/// `None` if no known name is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    known
        .filter(|candidate| candidate.len() <= MAX_NAME)
        .map(|candidate| {
            (distance(&wanted, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(wanted.len()) / 3 + 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: letters to insert, drop, change or swap.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let change = usize::from(a[i - 1] != b[j - 1]);
                    let mut best =
                        (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        best = best.min(rows[i - 2][j - 2] + 1);
                    }
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
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
