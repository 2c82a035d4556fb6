//! What a model reads until it has found and called the right subtool of 16 real servers stays within its bounds; the
//! figures are in `FINDING.md`.

use proto_tests::finding::measure::measure;

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
}
