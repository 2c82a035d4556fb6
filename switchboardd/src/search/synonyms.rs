//! Words that mean nearly the same, and phrases that stand for one word.
//! General English and the general vocabulary of programming; nothing here is about one server.

use super::words::stem;

/// Words that mean the same.
const EQUAL: &[&str] = &[
    "delete remove erase drop destroy discard purge trash forget unlink",
    "create make new build generate",
    "add append insert attach",
    "write save store persist",
    "list show enumerate display",
    "get fetch retrieve read obtain",
    "show view see display look",
    "search find lookup locate seek grep",
    "update change modify edit alter patch adjust rewrite revise",
    "move relocate transfer",
    "copy duplicate clone fork",
    "run execute evaluate eval invoke exec",
    "send post submit publish",
    "reply answer respond",
    "picture image photo",
    "screenshot picture photo",
    "video screencast movie film",
    "folder directory dir",
    "repository repo",
    "issue bug ticket defect",
    "documentation docs doc manual",
    "javascript js",
    "database db",
    "row record",
    "column field property attribute",
    "library package framework",
    "webpage website site",
    "navigate go visit goto browse",
    "reload refresh",
    "back previous",
    "click press tap",
    "select choose pick",
    "dialog alert popup modal",
    "hover mouse",
    "resize shrink enlarge",
    "viewport window",
    "error failure exception",
    "recent latest newest",
    "performance speed",
    "emulate simulate pretend mimic imitate",
    "dark color theme scheme",
    "tree hierarchy",
    "style css",
    "switch checkout",
    "diff difference compare comparison",
    "merge combine join",
    "comment remark",
    "user person member people",
    "info information detail metadata",
    "reaction emoji react",
    "count number many amount",
    "sum plus total",
    "aggregate group",
    "convert translate transform",
    "current now",
    "email mail",
    "entity node",
    "relation link connection relationship",
    "observation fact",
    "remember store memorize save",
    "think reason reflect thought",
    "research investigate",
    "analyse analysis examine",
    "crawl spider scrape",
    "start begin launch",
    "stop end finish halt quit terminate",
    "close quit exit shut",
    "enable activate",
    "disable deactivate",
    "compress gzip zip",
    "decompress unzip unpack",
    "export dump",
    "echo repeat",
    "environment env",
    "config configuration setting",
    "multiple several many batch bulk",
    "entire whole complete full everything",
    "undo revert reset restore rollback",
    "id identifier",
    "server instance cluster",
    "title name",
    "login sign signin authenticate",
    "logout signout logoff",
    "accept approve confirm",
    "reject dismiss decline",
    "allowed permission may",
    "document record",
    "upload attach",
    "phone mobile",
    "url link address",
];

/// Words that are often said instead of each other.
const RELATED: &[&str] = &[
    "create start open add register",
    "add include put create",
    "write put create",
    "list all view get",
    "show read get open list",
    "get load download",
    "search query look",
    "query select filter search",
    "update set replace put",
    "rename move name",
    "send tell notify write message say",
    "response reply",
    "message text note",
    "screenshot capture snapshot screen image",
    "media image picture audio photo",
    "record recording capture video",
    "folder path",
    "file document",
    "text content body",
    "repository project",
    "documentation reference guide example",
    "code source script snippet",
    "javascript script",
    "table database sheet",
    "row entry item document",
    "schema structure field column shape describe",
    "library module dependency",
    "internet web online url",
    "page webpage website site url tab",
    "navigate open load url",
    "tab page",
    "window browser screen",
    "click push hit",
    "key keyboard shortcut press hit",
    "type enter input fill write",
    "form field input",
    "option choice entry dropdown menu",
    "dropdown select",
    "dialog prompt confirmation confirm",
    "hover point pointer move",
    "drag move drop",
    "wait until pause sleep",
    "size large big bytes length smaller larger",
    "network http request traffic call",
    "request call",
    "error problem console",
    "console log message",
    "log history event journal commit",
    "history past recent earlier log",
    "status state condition change modify",
    "check test verify status",
    "performance slow trace timing load time",
    "audit check inspect quality",
    "memory heap leak",
    "device phone emulate viewport",
    "accessibility a11y",
    "tree structure recursive nested",
    "branch line",
    "stage index add",
    "change diff modify",
    "commit revision version record save",
    "approve review",
    "review feedback opinion comment",
    "comment discussion note",
    "label tag",
    "user account author human profile",
    "profile detail information",
    "self me myself bot",
    "channel room conversation",
    "thread conversation discussion",
    "reaction like thumb",
    "workspace team organization",
    "time clock hour",
    "timezone zone",
    "convert between difference",
    "difference between convert",
    "calendar schedule appointment event meeting",
    "entity object person concept thing",
    "relation edge connect",
    "observation knowledge information note",
    "memory knowledge remember",
    "know knowledge",
    "graph network knowledge",
    "plan think problem solve",
    "sequence step sequential",
    "report research analysis",
    "insight analyse analysis finding learning note",
    "explain plan describe",
    "explain slow",
    "map sitemap outline structure page",
    "extract scrape parse content text",
    "news article headline",
    "connect join attach login",
    "disconnect close",
    "trigger start",
    "toggle switch turn enable disable",
    "export save backup file",
    "import load",
    "download export",
    "upload import",
    "uninstall delete remove",
    "cancel delete remove",
    "permission access right allowed",
    "metadata size modify date",
    "last tail end recent",
    "first head begin",
    "variable environment",
    "monitor watch observe",
    "parent under",
    "index speed",
    "sort order",
];

/// Verbs that say little by themselves.
const WEAK: &str =
    " make get take have go put set do let show see open look give read list view start all new change ";

/// Phrases of everyday speech, each with the words that a tool would use for it.
const PHRASES: &[(&str, &str)] = &[
    ("get rid of", "delete"),
    ("throw away", "delete"),
    ("take out", "remove"),
    ("look up", "search"),
    ("look for", "search"),
    ("look at", "view"),
    ("looking for", "search"),
    ("go back", "navigate back"),
    ("go to", "navigate"),
    ("take back", "undo"),
    ("turn off", "turnoff disable toggle"),
    ("turn on", "turnon enable toggle"),
    ("switch off", "switchoff disable toggle"),
    ("switch on", "switchon enable toggle"),
    ("shut down", "stop close"),
    ("fill in", "fill"),
    ("fill out", "fill"),
    ("log in", "login"),
    ("sign in", "login"),
    ("log out", "logout"),
    ("log off", "logout"),
    ("sign out", "logout"),
    ("check in", "checkin"),
    ("zoom in", "zoomin"),
    ("zoom out", "zoomout"),
    ("roll back", "undo"),
    ("how many", "count number"),
    ("how much", "count number"),
    ("how big", "size"),
    ("how large", "size"),
    ("how long", "duration length"),
    ("how fast", "performance speed"),
    ("how do i", "documentation example"),
    ("how to", "documentation example"),
    ("who am i", "self user"),
    ("what time", "current time"),
    ("right now", "current now"),
    ("merge request", "pull request"),
    ("pr", "pull request"),
    ("prs", "pull request"),
    ("time zone", "timezone"),
    ("screen shot", "screenshot"),
    ("drop down", "dropdown"),
    ("pop up", "popup"),
    ("web page", "webpage page"),
    ("web site", "website"),
    ("up to date", "update latest"),
    ("step by step", "step sequential think"),
    ("break down", "think step analyse"),
    ("set up", "create configure"),
    ("write down", "write note"),
    ("no longer", "not"),
    ("rather than", "not"),
    ("instead of", "not"),
];

/// Words whose next word is not wanted.
const NEGATIONS: &str = " not no never without except dont isnt arent doesnt wasnt ";

pub(super) fn is_negation(word: &str) -> bool {
    NEGATIONS.contains(&format!(" {word} "))
}

/// Replaces phrases. The words of a phrase give way to the words that it stands for.
pub(super) fn without_phrases(words: &[String]) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len());
    let mut at = 0;
    while at < words.len() {
        let found = PHRASES
            .iter()
            .filter_map(|(phrase, meant)| {
                let count = phrase.split(' ').count();
                let part = words.get(at..at + count)?;
                phrase.split(' ').eq(part.iter().map(String::as_str)).then_some((count, *meant))
            })
            .max_by_key(|(count, _)| *count);
        match found {
            Some((count, meant)) => {
                out.extend(meant.split(' ').map(str::to_owned));
                at += count;
            }
            None => {
                out.push(words[at].clone());
                at += 1;
            }
        }
    }
    out
}

/// How much a word counts that means the same, and one that is often said instead.
pub(super) const AS_EQUAL: f32 = 0.85;
const AS_RELATED: f32 = 0.5;

/// The stems that can replace each of `stems`, with how much they count, without itself.
pub(super) fn replacements(stems: &[String]) -> Vec<Vec<(String, f32)>> {
    let mut all: Vec<Vec<(String, f32)>> = vec![Vec::new(); stems.len()];
    for (groups, weight) in [(EQUAL, AS_EQUAL), (RELATED, AS_RELATED)] {
        for group in groups {
            let group: Vec<String> = group.split(' ').map(stem).collect();
            for (wanted, found) in stems.iter().zip(&mut all).filter(|(wanted, _)| group.contains(wanted)) {
                for word in group.iter().filter(|word| *word != wanted) {
                    if !found.iter().any(|(known, _)| known == word) {
                        found.push((word.clone(), weight));
                    }
                }
            }
        }
    }
    all
}

/// Whether the word alone hardly tells one tool from another.
pub(super) fn is_weak(word: &str) -> bool {
    WEAK.contains(&format!(" {word} "))
}
