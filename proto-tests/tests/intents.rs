//! What a model reads until it has found and called the right subtool of 16 real servers stays within its bounds; the
//! figures are in `FINDING.md`.

use proto_tests::finding::measure::measure;

#[test]
fn the_right_subtool_is_found_within_every_bound() {
    let beyond = measure().beyond_bounds();
    assert!(
        beyond.is_empty(),
        "`cargo run -p proto-tests --bin finding` shows the figures\n{}",
        beyond.join("\n")
    );
}
