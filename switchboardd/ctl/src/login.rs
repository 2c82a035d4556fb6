//! `switchboard login` and `logout`: OAuth logins to remote servers.

use serde_json::json;

use super::CliExit;
use super::ask::{AskError, send_order};
use super::browser;
use super::output::{indented, print_json, remark, say};
use crate::args::Args;

pub(super) async fn run(args: &Args, child: &str, no_browser: bool) -> CliExit {
    match log_in(args, child, no_browser).await {
        Ok(kept) if args.json => {
            print_json(&json!({ "server": child, "loggedIn": true, "kept": kept }));
            CliExit::Ok
        }
        Ok(kept) => {
            say!("logged in to `{child}`; the login is kept in {kept}");
            CliExit::Ok
        }
        Err(unanswered) => unanswered.print(),
    }
}

async fn log_in(args: &Args, child: &str, no_browser: bool) -> Result<String, AskError> {
    let begun = send_order(args, "login", child).await?;
    let page = begun["open"].as_str().unwrap_or_default();
    if args.json {
        remark!("open this page to log in to `{child}`:");
        remark!("{page}");
    } else if no_browser || !browser::show(page) {
        say!("open this page to log in to `{child}`:");
        say!("{page}");
    } else {
        say!("your browser shows how to log in to `{child}`; if it does not, open:");
        say!("{page}");
    }
    let done = send_order(args, "login-done", child).await?;
    Ok(if done["kept"] == "keyring" { "the keyring" } else { "a private file" }.to_owned())
}

pub(super) async fn leave(args: &Args, child: &str) -> CliExit {
    let answer = match send_order(args, "logout", child).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.print(),
    };
    if args.json {
        print_json(&answer);
        return CliExit::Ok;
    }
    match answer["gone"].as_str() {
        Some("nothing") => say!("`{child}` was not logged in to"),
        Some("revoked") => say!("logged out of `{child}`; its tokens are revoked"),
        _ => {
            let why = answer["why"].as_str().unwrap_or_default();
            say!("logged out of `{child}`; its tokens are deleted here and not revoked: {}", indented(why));
        }
    }
    CliExit::Ok
}
