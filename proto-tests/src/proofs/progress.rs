//! How far each run is, in a file that is written after each slice.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::proof::{Figure, FigureKind};

/// How far one run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub done: u64,
    pub next_seed: u64,
    pub figures: Vec<Figure>,
    /// The first seeds of slices that failed; the number of the slice if it has no seed.
    pub failed: Vec<u64>,
}

impl Progress {
    pub fn add(&mut self, figures: Vec<Figure>) {
        for figure in figures {
            let same = |known: &&mut Figure| known.what == figure.what && known.row == figure.row;
            match self.figures.iter_mut().find(same) {
                Some(known) => known.add(figure.value),
                None => self.figures.push(figure),
            }
        }
    }

    fn to_json(&self) -> Value {
        let figures: Vec<String> = self.figures.iter().map(Figure::to_string).collect();
        json!({"done": self.done, "nextSeed": self.next_seed, "figures": figures, "failed": self.failed})
    }

    fn from_json(value: &Value) -> Self {
        let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        Self {
            done: value["done"].as_u64().unwrap_or(0),
            next_seed: value["nextSeed"].as_u64().unwrap_or(1),
            figures: list("figures").iter().filter_map(|line| Figure::read(line.as_str()?)).collect(),
            failed: list("failed").iter().filter_map(Value::as_u64).collect(),
        }
    }
}

/// The file. Progress that belongs to another commit is not continued.
#[derive(Debug)]
pub struct ProgressFile {
    path: PathBuf,
    commit: String,
    runs: BTreeMap<String, Progress>,
}

impl ProgressFile {
    pub fn open(path: &Path, commit: &str) -> Self {
        let read = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let kept = read.filter(|value| value["commit"] == commit);
        let runs = kept.and_then(|value| value["runs"].as_object().cloned()).unwrap_or_default();
        let runs = runs.iter().map(|(name, run)| (name.clone(), Progress::from_json(run))).collect();
        Self { path: path.to_owned(), commit: commit.to_owned(), runs }
    }

    pub fn of(&self, name: &str) -> Progress {
        self.runs.get(name).cloned().unwrap_or(Progress { next_seed: 1, ..Progress::default() })
    }

    /// Written beside and renamed, so that it is whole whenever the program is stopped.
    pub fn set(&mut self, name: &str, progress: Progress) -> io::Result<()> {
        self.runs.insert(name.to_owned(), progress);
        self.write()
    }

    /// The run is over: the next one begins anew, but with seeds that were not used.
    pub fn finish(&mut self, name: &str) -> io::Result<()> {
        let next_seed = self.of(name).next_seed;
        self.set(name, Progress { next_seed, ..Progress::default() })
    }

    fn write(&self) -> io::Result<()> {
        let runs: serde_json::Map<_, _> =
            self.runs.iter().map(|(name, run)| (name.clone(), run.to_json())).collect();
        let text = json!({"commit": self.commit, "runs": runs}).to_string();
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = self.path.with_extension("new");
        std::fs::write(&draft, text)?;
        std::fs::rename(&draft, &self.path)
    }
}

/// All figures of a row as one text.
pub fn figures_text(figures: &[Figure]) -> String {
    let totals = figures.iter().filter(|figure| figure.kind == FigureKind::Total);
    let largest = figures.iter().filter(|figure| figure.kind == FigureKind::Largest);
    let texts: Vec<String> = totals.chain(largest).map(Figure::text).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_continued_for_the_same_commit_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proofs/state.json");
        let figure =
            |value| Figure { row: "R1".into(), kind: FigureKind::Total, what: "calls".into(), value };
        let mut file = ProgressFile::open(&path, "abc");
        assert_eq!(file.of("a"), Progress { next_seed: 1, ..Progress::default() });
        let mut progress = file.of("a");
        (progress.done, progress.next_seed) = (100, 101);
        progress.failed.push(40);
        progress.add(vec![figure(3.0)]);
        progress.add(vec![figure(4.0)]);
        file.set("a", progress.clone()).unwrap();
        let again = ProgressFile::open(&path, "abc");
        assert_eq!(again.of("a"), progress);
        assert_eq!(figures_text(&again.of("a").figures), "calls: 7");
        assert_eq!(ProgressFile::open(&path, "abd").of("a").done, 0);
        let mut file = again;
        file.finish("a").unwrap();
        assert_eq!(
            ProgressFile::open(&path, "abc").of("a"),
            Progress { next_seed: 101, ..Progress::default() }
        );
    }
}
