//! A modern child says that its lists changed only to those who listen: one request that stays open for as long
//! as the child lives.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;

use super::{Child, Hello, Limits};
use crate::era::Era;
use crate::methods;

/// Between the end of one and the next.
const PAUSE: Duration = Duration::from_secs(1);

const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

pub(super) fn begin(child: &Arc<Child>) {
    if let Some(filter) = filter(child.hello()) {
        tokio::spawn(listen(child.clone(), filter));
    }
}

/// The lists that it says the changes of; `None` if there are none.
fn filter(hello: &Hello) -> Option<String> {
    if hello.era() != Era::Modern {
        return None;
    }
    let capabilities = Members::of(&*hello.capabilities)?;
    let says = |name: &str| {
        let of = capabilities.get(name).and_then(Members::of);
        of.and_then(|of| of.get("listChanged")).is_some_and(|says| says.get() == "true")
    };
    let kinds = [
        ("tools", r#""toolsListChanged":true"#),
        ("prompts", r#""promptsListChanged":true"#),
        ("resources", r#""resourcesListChanged":true"#),
    ];
    let wanted: Vec<&str> = kinds.into_iter().filter(|(name, _)| says(name)).map(|(_, wish)| wish).collect();
    (!wanted.is_empty()).then(|| format!(r#"{{"notifications":{{{}}}}}"#, wanted.join(",")))
}

async fn listen(child: Arc<Child>, filter: String) {
    while child.is_alive() {
        let call = child.call(None, methods::LISTEN, None, |_, out| out.extend_from_slice(filter.as_bytes()));
        let Ok(call) = call else { return };
        child.calls().stand(call.id);
        let Ok(answer) = call.answer(Limits { spawn: NEVER, rpc: NEVER, max: NEVER }).await else { return };
        if !matches!(Message::parse(&answer.body), Ok(Message::Response { outcome: Outcome::Result(_), .. }))
        {
            tracing::debug!(target: "child", child = child.name(), "it says that its lists change, but not when");
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::raw::Raw;

    use super::*;

    #[test]
    fn only_what_it_says_is_listened_for() {
        let filter = |version: &str, capabilities: &str| {
            let said = format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities}}}"#);
            filter(&Hello::read(Raw::parse(said.as_bytes()).unwrap()).unwrap())
        };
        let some = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}"#;
        assert_eq!(
            filter("2026-07-28", some).as_deref(),
            Some(r#"{"notifications":{"toolsListChanged":true}}"#)
        );
        assert_eq!(filter("2026-07-28", "{}"), None);
        assert_eq!(filter("2025-11-25", some), None);
    }
}
