//! Tools that would do the opposite of what is wanted: never a match, and never in the way of one that is right.

use super::*;

const GIT: &[(&str, &str)] = &[
    ("git_status", "Shows the working tree status"),
    ("git_diff_unstaged", "Shows changes in the working directory that are not yet staged"),
    ("git_diff_staged", "Shows changes that are staged for commit"),
    ("git_diff", "Shows differences between branches or commits"),
    ("git_commit", "Records changes to the repository"),
    ("git_add", "Adds file contents to the staging area"),
    ("git_reset", "Unstages all staged changes"),
    ("git_log", "Shows the commit logs"),
    ("git_create_branch", "Creates a new branch from an optional base branch"),
    ("git_checkout", "Switches branches"),
    ("git_show", "Shows the contents of a commit, or of a file or directory given as <revision>:<path>"),
    ("git_branch", "List Git branches"),
];

const MEMORY: &[(&str, &str)] = &[
    ("create_entities", "Create multiple new entities in the knowledge graph"),
    ("create_relations", "Create multiple new relations between entities in the knowledge graph."),
    ("add_observations", "Add new observations to existing entities in the knowledge graph"),
    ("delete_entities", "Delete multiple entities and their associated relations from the knowledge graph"),
    ("delete_observations", "Delete specific observations from entities in the knowledge graph"),
    ("delete_relations", "Delete multiple relations from the knowledge graph"),
    ("read_graph", "Read the entire knowledge graph"),
    ("search_nodes", "Search for nodes in the knowledge graph based on a query"),
    ("open_nodes", "Open specific nodes in the knowledge graph by their names"),
];

/// What a query finds among tools: the first one ("" for none, "*" for any), and those that are no match.
#[track_caller]
fn check(tools: &[(&str, &str)], query: &str, expect: &str, never: &[&str]) {
    let all: Vec<ToolWords> = tools.iter().map(|(name, description)| tool(name, description)).collect();
    let ranking = rank(&all.iter().collect::<Vec<_>>(), query, Searched::All);
    let names: Vec<&str> = ranking.matches.iter().map(|found| tools[found.at].0).collect();
    if expect != "*" {
        assert_eq!(names.first().copied().unwrap_or_default(), expect, "{query}: {names:?}");
    }
    let opposites: Vec<&str> = ranking.opposites.iter().map(|found| tools[found.at].0).collect();
    for name in never {
        assert!(!names.contains(name), "{query}: `{name}` is shown");
        assert!(opposites.contains(name), "{query}: `{name}` is not known as an opposite");
    }
    for name in opposites {
        assert!(!names.contains(&name), "{query}: `{name}` is both");
    }
}

/// Both verbs of a pair with the same thing: each finds its own tool, alone or beside the other.
#[track_caller]
fn check_pair(one: &str, other: &str, thing: &str) {
    let names = [one, other].map(|verb| format!("{verb}_{thing}"));
    let texts = [one, other].map(|verb| format!("{verb}s a {thing}"));
    let both = [(&*names[0], &*texts[0]), (&*names[1], &*texts[1])];
    for (wanted, against) in [(0, 1), (1, 0)] {
        let query = format!("{} the {thing}", [one, other][wanted]);
        check(&both, &query, &names[wanted], &[&names[against]]);
        check(&both[against..=against], &query, "", &[&names[against]]);
        check(&both[wanted..=wanted], &query, &names[wanted], &[]);
    }
}

#[test]
fn both_verbs_of_a_pair_find_their_own_tool_only() {
    for (one, other, thing) in [
        ("open", "close", "tab"),
        ("start", "stop", "recording"),
        ("resume", "pause", "job"),
        ("enable", "disable", "rule"),
        ("activate", "deactivate", "account"),
        ("show", "hide", "panel"),
        ("connect", "disconnect", "device"),
        ("attach", "detach", "volume"),
        ("join", "leave", "channel"),
        ("upload", "download", "video"),
        ("push", "pull", "image"),
        ("import", "export", "contacts"),
        ("lock", "unlock", "issue"),
        ("subscribe", "unsubscribe", "topic"),
        ("follow", "unfollow", "user"),
        ("archive", "unarchive", "channel"),
        ("expand", "collapse", "row"),
        ("encrypt", "decrypt", "message"),
        ("encode", "decode", "text"),
        ("compress", "decompress", "folder"),
        ("approve", "reject", "request"),
        ("grant", "revoke", "access"),
        ("block", "unblock", "user"),
        ("mount", "unmount", "disk"),
        ("install", "uninstall", "package"),
        ("publish", "unpublish", "page"),
        ("assign", "unassign", "task"),
        ("deploy", "undeploy", "service"),
        ("register", "deregister", "webhook"),
        ("associate", "disassociate", "address"),
        ("increase", "decrease", "volume"),
        ("create", "delete", "page"),
        ("add", "remove", "label"),
        ("login", "logout", "account"),
        ("promote", "demote", "member"),
        ("mute", "unmute", "thread"),
        ("pin", "unpin", "message"),
        ("buy", "sell", "share"),
    ] {
        check_pair(one, other, thing);
    }
}

#[test]
fn a_verb_with_a_prefix_does_not_find_the_bare_verb() {
    let tools = [
        ("install_package", "Installs a package"),
        ("publish_page", "Publishes a page"),
        ("mount_disk", "Mounts a disk"),
        ("assign_task", "Assigns a task to somebody"),
        ("block_user", "Blocks a user"),
        ("deploy_service", "Deploys a service"),
        ("list_everything", "Lists packages, pages, disks, tasks, users and services"),
    ];
    for (query, never) in [
        ("uninstall the package", "install_package"),
        ("unpublish the page", "publish_page"),
        ("un-publish the page", "publish_page"),
        ("unmount the disk", "mount_disk"),
        ("unassign the task", "assign_task"),
        ("unblock the user", "block_user"),
        ("undeploy the service", "deploy_service"),
        ("how can I unmount this disk?", "mount_disk"),
        ("please uninstall that package and tell me", "install_package"),
    ] {
        check(&tools, query, "list_everything", &[never]);
    }
    // These only begin like an opposite.
    check(&[("derstand_code", "")], "understand the code", "derstand_code", &[]);
    check(&[("play_video", "Plays a video")], "display the video", "play_video", &[]);
}

#[test]
fn what_undoes_a_thing_is_found_where_a_tool_is_named_by_it() {
    let cancel = [
        ("cancel_subscription", "Cancels a subscription"),
        ("cancel_order", "Cancels an order"),
        ("cancel_booking", "Cancels a booking"),
        ("order_pizza", "Orders a pizza"),
        ("list_orders", "Lists orders"),
    ];
    check(&cancel, "cancel order", "cancel_order", &["order_pizza"]);
    check(&cancel, "cancel my order", "cancel_order", &["order_pizza"]);
    check(&cancel, "cancel the booking of tomorrow", "cancel_booking", &[]);
    let revert = [
        ("revert_file", "Reverts a file"),
        ("revert_commit", "Reverts a commit"),
        ("revert_branch", "Reverts a branch"),
    ];
    check(&revert, "revert the commit", "revert_commit", &[]);
    check(&revert, "revert a file", "revert_file", &[]);
    check(&revert, "revert the branch", "revert_branch", &[]);
    check(&[("undo", "Undoes the last step"), ("redo", "Redoes it")], "undo", "undo", &[]);
    check(&[("reverse_geocode", "")], "reverse geocode an address", "reverse_geocode", &[]);
    let bookings =
        [("book_room", "Books a room"), ("list_bookings", "Lists bookings"), ("delete_booking", "")];
    check(&bookings, "cancel the booking", "delete_booking", &["book_room"]);
}

#[test]
fn what_is_to_be_undone_is_no_match() {
    check(GIT, "undo staging", "git_reset", &["git_add"]);
    check(GIT, "unstage the file", "*", &["git_add"]);
    check(GIT, "remove the file from the staging area", "*", &["git_add"]);
    check(GIT, "undo the last commit", "git_reset", &["git_commit"]);
    check(GIT, "revert the bad commit", "git_reset", &["git_commit"]);
    check(GIT, "revert my latest big commit", "git_reset", &["git_commit"]);
    check(GIT, "discard changes", "git_reset", &["git_commit"]);
    check(GIT, "stage a file", "git_add", &[]);
    check(GIT, "commit the changes", "git_commit", &[]);
    check(GIT, "show the last commit", "*", &[]);
    check(MEMORY, "undo adding the observation", "delete_observations", &["add_observations"]);
    check(MEMORY, "undo creating the entities", "delete_entities", &["create_entities"]);
    check(MEMORY, "add an observation", "add_observations", &["delete_observations"]);
    check(MEMORY, "forget the relation", "delete_relations", &["create_relations"]);
    let share = [("share_screen", "Shares the screen"), ("unshare_screen", "Stops sharing")];
    check(&share, "stop sharing the screen", "unshare_screen", &["share_screen"]);
    let files = [("move_file", "Moves a file"), ("copy_file", "Copies a file")];
    check(&files, "move the file instead of copying it", "move_file", &["copy_file"]);
}

#[test]
fn verbs_of_two_words_have_opposites() {
    let account = [("log_in", "Logs in"), ("log_out", "Logs out"), ("read_log", "Reads the log")];
    check(&account, "log out", "log_out", &["log_in"]);
    check(&account, "log in", "log_in", &["log_out"]);
    check(&account, "sign out", "log_out", &["log_in"]);
    check(&account, "read the log", "read_log", &[]);
    check(&account[..1], "log out", "", &["log_in"]);
    let light = [("turn_on_light", "Turns a light on"), ("turn_off_light", "Turns a light off")];
    check(&light, "turn off the light", "turn_off_light", &["turn_on_light"]);
    check(&light, "switch on the light", "turn_on_light", &["turn_off_light"]);
    let map = [("zoom_in", "Zooms in"), ("zoom_out", "Zooms out")];
    check(&map, "zoom out of the map", "zoom_out", &["zoom_in"]);
    let scroll = [("scroll_up", "Scrolls up"), ("scroll_down", "Scrolls down")];
    check(&scroll, "scroll down", "scroll_down", &["scroll_up"]);
}

#[test]
fn what_is_no_strict_opposite_stays_in_sight() {
    let database = [
        ("import_csv", "Imports a CSV file"),
        ("export_csv", "Exports a table as CSV file"),
        ("drop_table", "Drops a table"),
    ];
    check(&database, "upload a csv file", "import_csv", &[]);
    check(&database, "download the table as csv", "export_csv", &[]);
    check(&database, "import the csv file", "import_csv", &["export_csv"]);
    let mongodb = [
        ("find", "Run a find query against a MongoDB collection"),
        ("export", "Export a query or aggregation results in the specified EJSON format."),
        ("insert-many", "Insert an array of documents into a MongoDB collection."),
    ];
    let all: Vec<ToolWords> = mongodb.iter().map(|(name, description)| tool(name, description)).collect();
    let found = order(&all, "download all documents as a file", Searched::All);
    assert!(found.contains(&1), "{found:?}");
    let requests = [("push_files", "Pushes files"), ("create_pull_request", "Creates a pull request")];
    check(&requests, "pull request", "create_pull_request", &[]);
    check(&requests, "push the files", "push_files", &[]);
}

#[test]
fn words_that_only_look_like_an_action_hide_nothing() {
    let issues = [
        ("list_issues", "Lists issues, open or closed ones"),
        ("open_issue", "Opens an issue"),
        ("close_issue", "Closes an issue"),
    ];
    check(&issues, "list the closed issues", "list_issues", &[]);
    check(&issues, "show me all open issues", "list_issues", &[]);
    check(&issues, "get the issue closed", "*", &["open_issue"]);
    check(&issues, "open or close the issue", "*", &[]);
    let tasks = [("list_tasks", "Lists tasks"), ("assign_task", "Assigns a task")];
    check(&tasks, "unassigned tasks", "list_tasks", &[]);
    let tabs = [
        ("tabs", "Opens or closes a tab"),
        ("browser_tabs", "List, create, close, or select a browser tab."),
    ];
    for query in ["close the tab", "open a tab", "delete the tab"] {
        check(&tabs[1..], query, "browser_tabs", &[]);
    }
    check(&tabs[..1], "close the tab", "tabs", &[]);
    check(&[("enable_or_disable_rule", "")], "disable the rule", "enable_or_disable_rule", &[]);
}

#[test]
fn a_name_that_says_the_opposite_is_no_near_name() {
    for (one, other) in [
        ("git_undo_commit", "git_commit"),
        ("unlock_issue", "lock_issue"),
        ("remove_label", "add_label"),
        ("page_close", "page_open"),
    ] {
        assert!(are_opposite_names(one, other) && are_opposite_names(other, one), "{one} {other}");
    }
    for (one, other) in [
        ("git_comit", "git_commit"),
        ("undo_comit", "undo_commit"),
        ("add_lable", "add_label"),
        ("open_close_tab", "open_tab"),
        ("", "close"),
    ] {
        assert!(!are_opposite_names(one, other) && !are_opposite_names(other, one), "{one} {other}");
    }
}
