//! What a model reads until it has found and called the right subtool of 16 real servers stays within its bounds; the
//! figures are in `FINDING.md`.

use proto_tests::finding::measure::{descriptions, measure};

#[test]
fn the_right_subtool_is_found_within_every_bound() {
    let finding = measure();
    let beyond = finding.beyond_bounds();
    assert!(
        beyond.is_empty(),
        "`cargo run -p proto-tests --bin finding` shows the figures\n{}",
        beyond.join("\n")
    );
    // The figures do not depend on the machine.
    let page = include_str!("../FINDING.md");
    let tables = finding.markdown();
    let differs = tables.lines().filter(|line| !page.lines().any(|known| known == *line));
    let differs: Vec<&str> = differs.collect();
    assert!(
        differs.is_empty(),
        "FINDING.md has other figures; `cargo run -p proto-tests --bin finding -- --markdown` prints its tables\n{}",
        differs.join("\n")
    );
    // So does what other pages say of them.
    let tokens = |way: &str| -> String {
        let row = tables.lines().find(|line| line.starts_with(&format!("| {way} |"))).unwrap();
        let tokens = row.split('|').nth(3).unwrap().trim();
        let (thousands, rest) = tokens.split_at(tokens.len().saturating_sub(3));
        if thousands.is_empty() { rest.to_owned() } else { format!("{thousands},{rest}") }
    };
    let readme = include_str!("../../README.md").replace('\n', " ");
    for said in [
        format!("take {} tokens at the start", tokens("all tools listed")),
        format!("they take {} (", tokens("suites now")),
    ] {
        assert!(readme.contains(&said), "README.md does not say \"{said}\"");
    }
    let docs = include_str!("../../docs/suites.md");
    for (suite, description) in descriptions().into_iter().filter(|(suite, _)| suite == "playwright_suite") {
        assert!(
            docs.contains(&description),
            "docs/suites.md shows another description of {suite}: {description}"
        );
    }
}
