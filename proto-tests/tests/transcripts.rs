//! Every conversation in `vectors/`, byte for byte.

use std::collections::BTreeSet;

use proto_tests::transcript::check;

macro_rules! transcripts {
    ($($test:ident $file:literal)*) => {
        $(#[test] fn $test() { check($file); })*

        #[test]
        fn no_transcript_is_forgotten() {
            let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors")).unwrap();
            let files = folder.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file());
            let files: BTreeSet<_> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
            assert_eq!(files, BTreeSet::from([$($file.to_owned()),*]));
        }
    };
}

transcripts! {
    key_order_is_kept "key-order.txt"
    numbers_keep_their_digits "numbers.txt"
    unknown_fields_travel_on "unknown-fields.txt"
    a_null_result_is_a_result "null-result.txt"
    ids_come_back_as_they_were "ids.txt"
    a_childs_error_is_untouched "child-error.txt"
    is_error_is_a_result "is-error.txt"
    string_tokens_come_back "progress-string-token.txt"
    number_tokens_come_back "progress-number-token.txt"
    meta_passes_both_ways "meta.txt"
    a_question_finds_its_way_back "question.txt"
    ping_is_answered_at_once "ping.txt"
    escapes_stay_as_written "text.txt"
}
