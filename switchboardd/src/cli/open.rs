//! `switchboard open`: the status page, let in by a code that works once.

use hyper::Method;
use serde_json::json;

use super::Exit;
use super::ask::ask;
use super::browser;
use super::output::print;
use crate::args::Args;

pub(super) async fn run(args: &Args, no_browser: bool) -> Exit {
    let answer = match ask(args, Method::POST, "/control/open", None).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.tell(),
    };
    let page = answer["url"].as_str().unwrap_or_default();
    let opened = !no_browser && browser::show(page);
    let seconds = answer["expiresMs"].as_u64().unwrap_or(0) / 1000;
    if args.json {
        print(&json!({ "url": page, "expiresMs": answer["expiresMs"], "opened": opened }).to_string());
    } else if no_browser {
        print(page);
    } else if opened {
        print(&format!(
            "your browser shows the status page; if it does not, open this within {seconds} s:\n{page}"
        ));
    } else {
        print(&format!("no browser could be started; open this within {seconds} s:\n{page}"));
    }
    Exit::Ok
}
