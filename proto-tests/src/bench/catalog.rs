//! The tools of the benchmark's child: twenty, with schemas as long and as deep as those of real servers.

use serde_json::{Map, Value, json};

/// Name, type and description of an argument; a leading `!` marks it as required.
type Argument = (&'static str, &'static str, &'static str);

const OWNER: Argument = ("!owner", "string", "Repository owner");
const REPO: Argument = ("!repo", "string", "Repository name");
const PAGE: Argument = ("page", "number", "Page number for pagination (min 1)");
const PER_PAGE: Argument = ("perPage", "number", "Results per page for pagination (min 1, max 100)");

const TOOLS: &[(&str, &str, &[Argument])] = &[
    (
        "echo",
        "Gives a text back as it came. Answers at once and touches nothing.",
        &[("!text", "string", "The text")],
    ),
    ("big", "Gives a text of so many bytes.", &[("!bytes", "number", "How many bytes")]),
    (
        "search_repositories",
        "Find repositories by name, description, readme, topics or other metadata.",
        &[("!query", "string", "Search query in the syntax of repository search"), PAGE, PER_PAGE],
    ),
    (
        "create_issue",
        "Create a new issue in a repository, with labels and assignees.",
        &[
            OWNER,
            REPO,
            ("!title", "string", "Issue title"),
            ("body", "string", "Issue body content in Markdown"),
            ("labels", "array", "Labels to apply to this issue"),
            ("assignees", "array", "Usernames to assign to this issue"),
        ],
    ),
    (
        "update_issue",
        "Update an existing issue: its title, body, state or labels.",
        &[
            OWNER,
            REPO,
            ("!number", "number", "Issue number to update"),
            ("title", "string", "New title"),
            ("state", "string", "New state, open or closed"),
            ("labels", "array", "New labels"),
        ],
    ),
    (
        "list_issues",
        "List issues in a repository with filtering options.",
        &[
            OWNER,
            REPO,
            ("state", "string", "Filter by state: open, closed or all"),
            ("since", "string", "Filter by date (ISO 8601 timestamp)"),
            PAGE,
            PER_PAGE,
        ],
    ),
    (
        "get_issue",
        "Get details of a specific issue in a repository.",
        &[OWNER, REPO, ("!number", "number", "Issue number")],
    ),
    (
        "add_issue_comment",
        "Add a comment to a specific issue in a repository.",
        &[
            OWNER,
            REPO,
            ("!number", "number", "Issue number to comment on"),
            ("!body", "string", "Comment content"),
        ],
    ),
    (
        "search_code",
        "Fast and precise code search across all repositories.",
        &[
            ("!query", "string", "Search query in the syntax of code search"),
            ("sort", "string", "Sort field, only indexed"),
            PAGE,
            PER_PAGE,
        ],
    ),
    (
        "get_file_contents",
        "Get the contents of a file or directory from a repository.",
        &[
            OWNER,
            REPO,
            ("!path", "string", "Path to file or directory"),
            ("ref", "string", "Branch, tag or commit to read from"),
        ],
    ),
    (
        "create_or_update_file",
        "Create or update a single file in a repository.",
        &[
            OWNER,
            REPO,
            ("!path", "string", "Path where to create or update the file"),
            ("!content", "string", "Content of the file"),
            ("!message", "string", "Commit message"),
            ("!branch", "string", "Branch to write to"),
            ("sha", "string", "SHA of the file being replaced"),
        ],
    ),
    (
        "push_files",
        "Push several files to a repository in a single commit.",
        &[
            OWNER,
            REPO,
            ("!branch", "string", "Branch to push to"),
            ("!files", "array", "Paths and contents to push"),
            ("!message", "string", "Commit message"),
        ],
    ),
    (
        "create_branch",
        "Create a new branch in a repository.",
        &[
            OWNER,
            REPO,
            ("!branch", "string", "Name for the new branch"),
            ("from_branch", "string", "Source branch, the default branch if not given"),
        ],
    ),
    ("list_branches", "List the branches of a repository.", &[OWNER, REPO, PAGE, PER_PAGE]),
    (
        "list_commits",
        "Get the list of commits of a branch in a repository.",
        &[
            OWNER,
            REPO,
            ("sha", "string", "Commit, branch or tag to start from"),
            ("author", "string", "Author to filter commits by"),
            PAGE,
            PER_PAGE,
        ],
    ),
    (
        "get_pull_request",
        "Get details of a specific pull request.",
        &[OWNER, REPO, ("!number", "number", "Pull request number")],
    ),
    (
        "create_pull_request",
        "Create a new pull request in a repository.",
        &[
            OWNER,
            REPO,
            ("!title", "string", "Pull request title"),
            ("!head", "string", "Branch that contains the changes"),
            ("!base", "string", "Branch to merge into"),
            ("body", "string", "Description of the change"),
            ("draft", "boolean", "Create as a draft"),
        ],
    ),
    (
        "merge_pull_request",
        "Merge a pull request in a repository.",
        &[
            OWNER,
            REPO,
            ("!number", "number", "Pull request number"),
            ("commit_title", "string", "Title for the merge commit"),
            ("merge_method", "string", "Merge method: merge, squash or rebase"),
        ],
    ),
    (
        "get_pull_request_files",
        "Get the list of files that a pull request changed, with their patches.",
        &[OWNER, REPO, ("!number", "number", "Pull request number"), PAGE, PER_PAGE],
    ),
    (
        "fork_repository",
        "Fork a repository to your account or to an organization.",
        &[OWNER, REPO, ("organization", "string", "Organization to fork to")],
    ),
];

/// The result of `tools/list`.
pub fn list() -> String {
    let tools: Vec<Value> = TOOLS.iter().map(|(name, says, arguments)| tool(name, says, arguments)).collect();
    json!({ "tools": tools }).to_string()
}

fn tool(name: &str, says: &str, arguments: &[Argument]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, kind, says) in arguments {
        let bare = name.trim_start_matches('!');
        if bare != *name {
            required.push(bare);
        }
        let mut schema = json!({"type": kind, "description": says});
        if *kind == "array" {
            schema["items"] = json!({"type": "string"});
        }
        properties.insert(bare.to_owned(), schema);
    }
    json!({
        "name": name,
        "description": says,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_has_the_size_of_a_real_servers_list() {
        let list = super::list();
        assert_eq!(super::TOOLS.len(), 20);
        assert!((9_000..10_000).contains(&list.len()), "{} bytes", list.len());
    }
}
