//! The ranking as a whole, on small lists. `proto-tests` measures it on real ones.

use super::*;

fn tool(name: &str, description: &str) -> ToolWords {
    with_schema(name, description, "{}")
}

fn with_schema(name: &str, description: &str, schema: &str) -> ToolWords {
    let schema = Raw::parse(schema.as_bytes());
    ToolWords::of(ToolText { name, title: None, description, schema })
}

fn order(tools: &[ToolWords], query: &str, searched: Searched) -> Vec<usize> {
    let tools: Vec<&ToolWords> = tools.iter().collect();
    rank(&tools, query, searched).matches.iter().map(|found| found.at).collect()
}

/// Checks which tool comes first, by its index.
#[track_caller]
fn first(tools: &[ToolWords], query: &str, expect: usize) {
    assert_eq!(order(tools, query, Searched::All).first(), Some(&expect), "{query}");
}

#[test]
fn forms_of_a_word_find_each_other() {
    let tools =
        [tool("list_directories", "Lists what is there"), tool("stage_file", ""), tool("navigate", "")];
    for query in ["directory", "listing of a directory", "listed directories"] {
        first(&tools, query, 0);
    }
    first(&tools, "staging", 1);
    first(&tools, "the files that I staged", 1);
    first(&tools, "navigation", 2);
}

#[test]
fn words_of_the_same_meaning_find_each_other() {
    let tools = [
        tool("delete_record", ""),
        tool("take_screenshot", ""),
        tool("create_issue", ""),
        tool("list_directory", ""),
    ];
    first(&tools, "get rid of a row", 0);
    first(&tools, "erase it", 0);
    first(&tools, "make a picture of the screen", 1);
    first(&tools, "open a bug", 2);
    first(&tools, "what is in this folder", 3);
}

#[test]
fn mistyped_and_shortened_words_find_the_right_ones() {
    let tools = [tool("search_code", ""), tool("configure_network", ""), tool("screenshot", "")];
    first(&tools, "serach", 0);
    first(&tools, "screenshto", 2);
    first(&tools, "config", 1);
    assert!(order(&tools, "xqzw", Searched::All).is_empty());
}

#[test]
fn the_opposite_is_not_first() {
    let git = [
        tool("git_add", "Adds file contents to the staging area"),
        tool("git_reset", "Unstages all staged changes"),
    ];
    first(&git, "undo staging", 1);
    first(&git, "unstage everything", 1);
    first(&git, "stage a file", 0);
    let pairs = [
        tool("open_tab", "Opens a tab"),
        tool("close_tab", "Closes a tab"),
        tool("upload_file", "Uploads a file"),
        tool("download_file", "Downloads a file"),
        tool("lock_issue", "Locks an issue"),
        tool("unlock_issue", "Unlocks an issue"),
    ];
    for (query, expect) in [
        ("close the tab", 1),
        ("open a tab", 0),
        ("upload it", 2),
        ("download the file", 3),
        ("lock the issue", 4),
        ("unlock the issue", 5),
    ] {
        first(&pairs, query, expect);
    }
}

#[test]
fn what_only_does_the_opposite_is_no_match() {
    let check = |name: &str, description: &str, query: &str, is_match: bool| {
        let tool = tool(name, description);
        let ranking = rank(&[&tool], query, Searched::All);
        assert_eq!(ranking.matches.len(), usize::from(is_match), "{name}: {query}");
        assert_eq!(ranking.opposites.len(), usize::from(!is_match), "{name}: {query}");
    };
    let git_add = "Adds file contents to the staging area";
    check("git_add", git_add, "undo staging", false);
    check("git_add", git_add, "unstage the file", false);
    check("git_add", git_add, "stage the file", true);
    check("lock_issue", "Locks an issue", "unlock the issue", false);
    check("open_tab", "Opens a tab", "close the tab", false);
    check("tabs", "Opens or closes a tab", "close the tab", true);
    check("create_page", "Creates a page", "delete the page", false);
    check("create_page", "Creates a page", "create the page", true);
}

#[test]
fn an_opposite_is_no_match_beside_weaker_ones() {
    let tabs = [tool("open_tab", "Opens a tab"), tool("describe_window", "Tells which tab is in front")];
    let ranking = rank(&tabs.iter().collect::<Vec<_>>(), "close the tab", Searched::All);
    let matches: Vec<usize> = ranking.matches.iter().map(|found| found.at).collect();
    assert_eq!((matches, ranking.opposites[0].at), (vec![1], 0));
}

#[test]
fn reading_and_deleting_are_told_apart() {
    let tools = [
        tool("delete_page", "Deletes a page"),
        tool("get_page", "Returns a page"),
        tool("update_page", "Changes a page"),
        tool("create_page", "Creates a page"),
    ];
    first(&tools, "show me the page", 1);
    first(&tools, "remove the page", 0);
    first(&tools, "edit the page", 2);
    first(&tools, "new page", 3);
}

#[test]
fn names_are_split_at_every_kind_of_border() {
    let tools = [
        tool("API-post-search", ""),
        tool("getJSONSchema", ""),
        tool("browser.take_picture", ""),
        tool("readHTTPLog", ""),
    ];
    first(&tools, "search", 0);
    first(&tools, "json schema", 1);
    first(&tools, "picture", 2);
    first(&tools, "the log of http", 3);
}

#[test]
fn arguments_and_enum_values_count_unless_schemas_are_hidden() {
    let schema = r#"{"properties":{"tone":{"enum":["sepia","mono"]},"latitude":{"description":"Where on the globe"}}}"#;
    let tools = [tool("one", "Does something"), with_schema("two", "Does something", schema)];
    for query in ["sepia", "latitude", "globe"] {
        first(&tools, query, 1);
        assert!(order(&tools, query, Searched::WithoutArguments).is_empty(), "{query}");
    }
}

#[test]
fn a_word_in_the_name_counts_more_than_one_in_the_text() {
    let tools = [
        tool("export", "Writes a report. It can also commit, push and tag what it wrote."),
        tool("commit", "Records changes"),
        tool("old_commit", "Deprecated: use commit"),
    ];
    first(&tools, "commit", 1);
    assert_eq!(order(&tools, "commit", Searched::All).len(), 3);
}

#[test]
fn every_tool_is_matched_or_named_once() {
    let matches = [Match { at: 3, score: 1.0 }, Match { at: 0, score: 0.5 }];
    assert_eq!(unmatched(5, &matches).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(unmatched(0, &[]).count(), 0);
}

#[test]
fn no_text_is_too_odd() {
    let odd = ["", " ", "☃", "é\u{301}", "\u{0}", "----", "a", "the of to", "NOT not un", "''''", "İ"];
    let tools: Vec<ToolWords> = odd.iter().map(|text| with_schema(text, text, "[1]")).collect();
    for query in odd {
        let found = order(&tools, query, Searched::All);
        assert!(found.iter().all(|at| *at < tools.len()), "{query}");
    }
    assert!(order(&[], "anything", Searched::All).is_empty());
}

mod opposites;
