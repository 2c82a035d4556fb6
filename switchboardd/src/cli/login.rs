//! `switchboard login` and `logout`: a person's way into remote servers that ask for one.

use hyper::Method;
use serde_json::{Value, json};

use super::Exit;
use super::ask::{Unanswered, ask};
use super::browser;
use super::output::print;
use crate::args::Args;

pub(super) async fn run(args: &Args, child: &str, no_browser: bool) -> Exit {
    match log_in(args, child, no_browser).await {
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
    if no_browser || !browser::show(page) {
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

async fn order(args: &Args, order: &str, child: &str) -> Result<Value, Unanswered> {
    let body = json!({ "suite": child, "workspace": super::workspace(args) });
    ask(args, Method::POST, &format!("/control/{order}"), Some(&body)).await
}
