//! `switchboard ls`: the suites that a host in this folder sees.

use hyper::Method;
use serde_json::{Value, json};

use super::CliExit;
use super::ask::{about, ask};
use super::output::{
    Paint, Table, Tone, cell, indented, print, print_json, remark, say, tilde, toned, width,
};
use super::status::{note, project, shown_name, state, subtools};
use crate::args::Args;

pub(super) async fn run(args: &Args) -> CliExit {
    let path = format!("/suites{}", about(project(args).as_deref()));
    let answer = match ask(args, Method::GET, &path, None).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.print(),
    };
    let suites = answer["suites"].as_array().map_or(&[][..], Vec::as_slice);
    if args.json {
        print_json(&json!({ "suites": suites, "problems": answer["problems"] }));
        return CliExit::Ok;
    }
    if suites.is_empty() {
        say!(
            "no servers: `switchboard add NAME -- COMMAND` defines a server, `switchboard import` takes those of your editors",
        );
    }
    let mut table = Table::new(&["SERVER", "STATE", "TOOLS", "FROM"]);
    for suite in suites {
        let text = |key: &str| suite[key].as_str().unwrap_or("-").to_owned();
        table.row(vec![
            cell(shown_name(suite)),
            state(&suite["state"]),
            cell(subtools(suite)),
            toned(Tone::Quiet, tilde(&text("file"))),
        ]);
    }
    let paint = Paint::for_stdout();
    if !table.is_empty() {
        table.lines(paint, width()).iter().for_each(print);
    }
    // Why a suite cannot be used goes to standard error, not among the names in a pipe.
    for suite in
        suites.iter().filter(|suite| matches!(suite["state"].as_str(), Some("held" | "misconfigured")))
    {
        let name = suite["child"].as_str().unwrap_or("-");
        remark!("switchboard: `{name}`: {}", note(suite).text());
    }
    for problem in answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        remark!("switchboard: problem: {}", indented(problem));
    }
    CliExit::Ok
}
