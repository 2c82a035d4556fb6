//! `switchboard login` and `logout`: a person's way into remote servers that ask for one.

use serde_json::json;

use super::Exit;
use super::ask::{Unanswered, order};
use super::browser;
use super::output::{print, print_json};
use crate::args::Args;

pub(super) async fn run(args: &Args, child: &str, no_browser: bool) -> Exit {
    match log_in(args, child, no_browser).await {
        Ok(kept) if args.json => {
            print_json(&json!({ "server": child, "loggedIn": true, "kept": kept }));
            Exit::Ok
        }
        Ok(kept) => {
            print(&format!("logged in to `{child}`; the login is kept in {kept}"));
            Exit::Ok
        }
        Err(unanswered) => unanswered.tell(),
    }
}

async fn log_in(args: &Args, child: &str, no_browser: bool) -> Result<String, Unanswered> {
    let begun = order(args, "login", child).await?;
    let page = begun["open"].as_str().unwrap_or_default();
    if args.json {
        eprintln!("open this page to log in to `{child}`:\n{page}");
    } else if no_browser || !browser::show(page) {
        print(&format!("open this page to log in to `{child}`:\n{page}"));
    } else {
        print(&format!("your browser shows how to log in to `{child}`; if it does not, open:\n{page}"));
    }
    let done = order(args, "login-done", child).await?;
    Ok(if done["kept"] == "keyring" { "the keyring" } else { "a private file" }.to_owned())
}

pub(super) async fn leave(args: &Args, child: &str) -> Exit {
    let answer = match order(args, "logout", child).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.tell(),
    };
    if args.json {
        print_json(&answer);
        return Exit::Ok;
    }
    print(&match answer["gone"].as_str() {
        Some("nothing") => format!("`{child}` was not logged in to"),
        Some("revoked") => format!("logged out of `{child}`; its tokens are revoked"),
        _ => {
            let why = answer["why"].as_str().unwrap_or_default();
            format!("logged out of `{child}`; its tokens are deleted here and not revoked: {why}")
        }
    });
    Exit::Ok
}
