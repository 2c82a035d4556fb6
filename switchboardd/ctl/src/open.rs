//! `switchboard open`: opens the status page with a code that works once.

use hyper::Method;
use serde_json::json;
use switchboard_wire::runtime_paths::private_folder;
use url::Url;

use super::CliExit;
use super::ask::ask;
use super::browser;
use super::output::{print_json_line, say};
use crate::args::Args;
use switchboardd::daemon;
use switchboardd::page_access;

/// Writes a private file that redirects to the page, and returns its URL. The browser gets that URL because
/// every local user can read its arguments. The daemon deletes the file.
fn write_link_file(args: &Args, page: &str) -> Option<String> {
    let (_, state) = daemon::files_in_use(&args.of_daemon(), &daemon::home().ok()?);
    let file = page_access::link_file(&state);
    let url = Url::from_file_path(&file).ok()?;
    private_folder(&state)
        .and_then(|()| switchboard_definitions::files::replace(&file, lead(page).as_bytes()))
        .ok()?;
    Some(url.into())
}

fn lead(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={page}\">\n<title>Switchboard</title>\n\
         <p><a href=\"{page}\">Switchboard's status page</a></p>\n"
    )
}

pub(super) async fn run(args: &Args, no_browser: bool) -> CliExit {
    let answer = match ask(args, Method::POST, "/control/open", None).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.print(),
    };
    let page = answer["url"].as_str().unwrap_or_default();
    let opened = !no_browser && write_link_file(args, page).is_some_and(|file| browser::show(&file));
    let seconds = answer["expiresMs"].as_u64().unwrap_or(0) / 1000;
    if args.json {
        let _ = print_json_line(&json!({ "url": page, "expiresMs": answer["expiresMs"], "opened": opened }));
    } else if no_browser {
        say!("{page}");
    } else if opened {
        say!("your browser shows the status page; if it does not, open this within {seconds} s:");
        say!("{page}");
    } else {
        say!("no browser could be started; open this within {seconds} s:");
        say!("{page}");
    }
    CliExit::Ok
}
