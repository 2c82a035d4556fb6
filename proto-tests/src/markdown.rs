//! The documentation as tests read it: pages, their code blocks, headings and links.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file of the repository.
#[derive(Debug)]
pub struct Page {
    /// Its path below the root of the repository.
    pub name: String,
    pub text: String,
}

/// A fenced block.
#[derive(Debug)]
pub struct Block<'p> {
    /// The words after the fence, such as `sh install`.
    pub kind: &'p str,
    /// The name in `<!-- test: NAME -->` on the line above.
    pub mark: Option<&'p str>,
    pub text: String,
    /// The line of the fence, counted from 1.
    pub line: usize,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What users and contributors read.
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut names: Vec<String> = [".", "docs", "docs/adr", "deploy", ".github"]
        .into_iter()
        .map(PathBuf::from)
        .chain(
            fs::read_dir(root.join("examples"))
                .unwrap()
                .map(|entry| Path::new("examples").join(entry.unwrap().file_name())),
        )
        .filter_map(|folder| Some((fs::read_dir(root.join(&folder)).ok()?, folder)))
        .flat_map(|(entries, folder)| entries.map(move |entry| folder.join(entry.unwrap().file_name())))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| path.to_str().unwrap().trim_start_matches("./").to_owned())
        .collect();
    names.sort();
    names.into_iter().map(|name| Page { text: fs::read_to_string(root.join(&name)).unwrap(), name }).collect()
}

impl Page {
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        let mut above = "";
        while let Some((at, line)) = lines.next() {
            if let Some(kind) = line.strip_prefix("```") {
                let mark = above.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
                let inside: Vec<&str> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
                blocks.push(Block { kind: kind.trim(), mark, text: inside.join("\n"), line: at + 1 });
            }
            above = line;
        }
        blocks
    }

    /// Each line of prose with its number: no fenced blocks, and nothing between backticks.
    pub fn prose(&self) -> Vec<(usize, String)> {
        let mut in_block = false;
        let mut lines = Vec::new();
        for (at, line) in self.text.lines().enumerate() {
            if line.starts_with("```") {
                in_block = !in_block;
            } else if !in_block && !line.starts_with("    ") {
                let outside = line.split('`').enumerate().filter(|(part, _)| part % 2 == 0);
                lines.push((at + 1, outside.map(|(_, part)| part).collect::<Vec<_>>().join("``")));
            }
        }
        lines
    }

    /// The targets of links and pictures, with their lines.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (line, text) in self.prose() {
            for part in text.split("](").skip(1) {
                links.push((line, part.split(')').next().unwrap_or_default().to_owned()));
            }
            for part in text.split("src=\"").skip(1) {
                links.push((line, part.split('"').next().unwrap_or_default().to_owned()));
            }
        }
        links
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut in_block = false;
        let mut anchors = Vec::new();
        for line in self.text.lines() {
            in_block ^= line.starts_with("```");
            let title = line.trim_start_matches('#');
            if in_block || title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let kept = title.trim().to_lowercase().replace(' ', "-");
            let anchor: String =
                kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            let count = seen.entry(anchor.clone()).or_default();
            anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
            *count += 1;
        }
        anchors
    }
}
