//! How many bytes a model has to read: lists and introspection.

use super::Effort;
use super::catalog;
use super::drive::Call;
use super::report::{Report, Row};
use super::setup::{CHILD, ECHO, SwitchboardSetup, name, suite_call};
use crate::wait::{TEST_TIMEOUT, until};

const CHILDREN: usize = 10;

pub fn measure(_: Effort, report: &mut Report) {
    let ours = SwitchboardSetup::new(CHILDREN);
    let mut shim = ours.shim();
    shim.wire.initialize();
    let list = result_of(&shim.wire.ask(&Call::method("tools/list", "{}")));
    let plain = catalog::list().len() as f64;
    let bytes = |what: &str, measured: usize, direct: f64| {
        Row::new(what, "B", measured as f64).beside(Some(direct), None)
    };
    let all = plain * CHILDREN as f64;
    report.add(bytes("`tools/list`, 10 children of 20 tools", list.len(), all));

    shim.wire.ask(&suite_call("echo", ECHO));
    let mut introspect = |arguments: &str| {
        let params =
            format!(r#"{{"name":"{CHILD}_suite","arguments":{{"action":"introspect"{arguments}}}}}"#);
        crate::shim::text_of(&shim.wire.ask(&Call::method("tools/call", &params)))
    };
    let everything = introspect("");
    report.add(bytes("`introspect` of 20 tools", everything.len(), plain));
    let found = introspect(r#","query":"merge pull request""#);
    assert!(found.contains("merge_pull_request"), "{found}");
    report.add(bytes("`introspect` with a query", found.len(), plain));

    for number in 1..CHILDREN {
        let params = format!(r#"{{"name":"{}_suite","arguments":{{"action":"introspect"}}}}"#, name(number));
        shim.wire.ask(&Call::method("tools/call", &params));
    }
    let described = until("all descriptions", TEST_TIMEOUT, || {
        let list = result_of(&shim.wire.ask(&Call::method("tools/list", "{}")));
        Some(list).filter(|list| list.matches(". Tools").count() == CHILDREN)
    });
    report.add(bytes("`tools/list`, the same, once all have run", described.len(), all));
}

fn result_of(answer: &str) -> String {
    let at = crate::transcript::place(answer, &["result"]).unwrap_or_else(|| panic!("no result in {answer}"));
    answer[at].to_owned()
}
