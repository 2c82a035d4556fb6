//! The annotations of a tool that stands for several subtools: what is true of all that it can reach.

use crate::child::Annotations;

/// What is true of all these subtools. Nothing is claimed where one of them is silent, or where none says it.
pub fn common(subtools: &[Annotations]) -> Annotations {
    // What only reads neither destroys anything nor does more when it is repeated.
    let reads = |tool: &Annotations| tool.read_only == Some(true);
    Annotations {
        read_only: all(subtools, |tool| tool.read_only, |_| None),
        destructive: any(subtools, |tool| tool.destructive, |tool| reads(tool).then_some(false)),
        idempotent: all(subtools, |tool| tool.idempotent, |tool| reads(tool).then_some(true)),
        open_world: any(subtools, |tool| tool.open_world, |_| None),
    }
}

type Hint = fn(&Annotations) -> Option<bool>;

/// The words of all subtools; `implied` is used for those that are silent. `None` unless each has one and at
/// least one is explicit.
fn words(
    subtools: &[Annotations],
    said: Hint,
    implied: impl Fn(&Annotations) -> Option<bool>,
) -> Option<Vec<bool>> {
    subtools.iter().find_map(said)?;
    subtools.iter().map(|tool| said(tool).or_else(|| implied(tool))).collect()
}

/// A hint that holds only if it holds for every subtool.
fn all(subtools: &[Annotations], said: Hint, implied: impl Fn(&Annotations) -> Option<bool>) -> Option<bool> {
    Some(words(subtools, said, implied)?.into_iter().all(|word| word))
}

/// A hint that holds if it holds for one subtool.
fn any(subtools: &[Annotations], said: Hint, implied: impl Fn(&Annotations) -> Option<bool>) -> Option<bool> {
    Some(words(subtools, said, implied)?.into_iter().any(|word| word))
}

/// As the value of `annotations`; `None` if there is nothing to say.
pub fn to_json(annotations: Annotations) -> Option<String> {
    let Annotations { read_only, destructive, idempotent, open_world } = annotations;
    let hints = [
        ("readOnlyHint", read_only),
        ("destructiveHint", destructive),
        ("idempotentHint", idempotent),
        ("openWorldHint", open_world),
    ];
    let said: Vec<String> =
        hints.iter().filter_map(|(name, hint)| Some(format!(r#""{name}":{}"#, (*hint)?))).collect();
    (!said.is_empty()).then(|| format!("{{{}}}", said.join(",")))
}

#[cfg(test)]
mod tests {
    use switchboard_wire::raw::Raw;

    use super::*;

    #[track_caller]
    fn check(tools: &[&str], expect: Option<&str>) {
        let tools: Vec<_> =
            tools.iter().map(|tool| Annotations::of(Raw::parse(tool.as_bytes()).unwrap())).collect();
        assert_eq!(to_json(common(&tools)).as_deref(), expect);
    }

    const READS: &str = r#"{"readOnlyHint":true}"#;

    #[test]
    fn a_claim_holds_for_every_subtool() {
        check(&[READS, READS], Some(READS));
        check(&[READS, r#"{"readOnlyHint":false}"#], Some(r#"{"readOnlyHint":false}"#));
        check(
            &[r#"{"idempotentHint":true}"#, r#"{"idempotentHint":false}"#],
            Some(r#"{"idempotentHint":false}"#),
        );
        check(
            &[r#"{"openWorldHint":true}"#, r#"{"openWorldHint":false}"#],
            Some(r#"{"openWorldHint":true}"#),
        );
        check(&[r#"{"openWorldHint":false}"#; 2], Some(r#"{"openWorldHint":false}"#));
        check(
            &[r#"{"destructiveHint":false}"#, r#"{"destructiveHint":true}"#],
            Some(r#"{"destructiveHint":true}"#),
        );
    }

    #[test]
    fn nothing_is_claimed_where_one_is_silent() {
        check(&[], None);
        check(&["{}"], None);
        check(&[READS, "{}"], None);
        check(&[r#"{"destructiveHint":false}"#, r#"{"readOnlyHint":false}"#], None);
        check(&[r#"{"openWorldHint":false}"#, READS], None);
    }

    #[test]
    fn what_only_reads_is_harmless() {
        check(&[READS, r#"{"destructiveHint":false}"#], Some(r#"{"destructiveHint":false}"#));
        check(
            &[READS, r#"{"readOnlyHint":false,"idempotentHint":true}"#],
            Some(r#"{"readOnlyHint":false,"idempotentHint":true}"#),
        );
    }
}
