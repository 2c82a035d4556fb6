//! The static files of the status page.

/// A file of the page, embedded in the binary. The kernel loads it into memory only when it is served.
pub(super) struct PageFile {
    path: &'static str,
    /// Its media type.
    pub(super) kind: &'static str,
    pub(super) body: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const PARTS: [PageFile; 15] = [
    PageFile { path: "/", kind: "text/html; charset=utf-8", body: include_str!("page/index.html") },
    PageFile { path: "/page/page.css", kind: "text/css; charset=utf-8", body: include_str!("page/page.css") },
    PageFile { path: "/page/icon.svg", kind: "image/svg+xml", body: include_str!("page/icon.svg") },
    PageFile { path: "/page/page.js", kind: SCRIPT, body: include_str!("page/page.js") },
    PageFile { path: "/page/link.js", kind: SCRIPT, body: include_str!("page/link.js") },
    PageFile { path: "/page/view.js", kind: SCRIPT, body: include_str!("page/view.js") },
    PageFile { path: "/page/savings.js", kind: SCRIPT, body: include_str!("page/savings.js") },
    PageFile { path: "/page/calls.js", kind: SCRIPT, body: include_str!("page/calls.js") },
    PageFile { path: "/page/suites.js", kind: SCRIPT, body: include_str!("page/suites.js") },
    PageFile { path: "/page/details.js", kind: SCRIPT, body: include_str!("page/details.js") },
    PageFile { path: "/page/errors.js", kind: SCRIPT, body: include_str!("page/errors.js") },
    PageFile { path: "/page/figures.js", kind: SCRIPT, body: include_str!("page/figures.js") },
    PageFile { path: "/page/charts.js", kind: SCRIPT, body: include_str!("page/charts.js") },
    PageFile { path: "/page/dom.js", kind: SCRIPT, body: include_str!("page/dom.js") },
    PageFile { path: "/page/words.js", kind: SCRIPT, body: include_str!("page/words.js") },
];

/// The file at `path`, if there is one.
pub(super) fn find(path: &str) -> Option<&'static PageFile> {
    PARTS.iter().find(|part| part.path == path)
}
