//! What remote servers and authorization servers send.

use switchboardd::child::remote::sse::{Event, Parser};
use switchboardd::oauth::bearer_challenge::BearerChallenge;
use switchboardd::oauth::callback::{CallbackResult, ExpectedCallback, judge};
use switchboardd::oauth::error_response;
use switchboardd::oauth::metadata::{AuthServerMetadata, ResourceMetadata, endpoint};
use url::Url;

use super::Target;

const LIMIT: usize = 100;

pub(crate) const EVENTS: Target = Target {
    name: "events",
    parts: &[
        "data:",
        "data: ",
        "event:",
        "id:",
        "id: 7",
        "retry:",
        "retry: 500",
        ":",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "x",
        "\u{feff}",
        "\0",
        "{}",
        "99999999999999999999",
        "é",
    ],
    most: 60,
    seeds: || {
        vec![
            "event: message\nid: 1\ndata: {\"a\":1}\n\nretry: 7\n: ping\n\ndata: a\ndata: b\r\n\r\n"
                .to_owned(),
        ]
    },
    run: |input| {
        // The first byte decides into which pieces the rest is split.
        let Some((split, input)) = input.split_first() else { return };
        let mut whole = Parser::new(LIMIT);
        let expected = whole.feed(input);
        let mut pieces = Parser::new(LIMIT);
        let got: Vec<Event> =
            input.chunks(1 + usize::from(*split) % 20).flat_map(|piece| pieces.feed(piece)).collect();
        assert_eq!(got, expected);
        assert_eq!((pieces.last_id(), pieces.retry()), (whole.last_id(), whole.retry()));
        for event in &got {
            match event {
                Event::Message { data, name } => assert!(data.len() <= LIMIT && name.len() <= input.len()),
                Event::TooLong { bytes } => assert!(*bytes > LIMIT as u64 && *bytes <= input.len() as u64),
            }
        }
    },
};

pub(crate) const CHALLENGES: Target = Target {
    name: "challenges",
    parts: &[
        "Bearer",
        "Basic ",
        " ",
        ",",
        "=",
        "\"",
        "\\",
        "scope",
        "error=",
        "resource_metadata",
        "a b",
        "ü",
        "\t",
        "==",
    ],
    most: 40,
    seeds: || vec![r#"Bearer realm="a", scope="b c", error="d", resource_metadata="https://h/x""#.to_owned()],
    run: |input| {
        let header = String::from_utf8_lossy(input);
        if let Some(demand) = BearerChallenge::parse(&header) {
            assert!(header.to_ascii_lowercase().contains("bearer"));
            let all = [demand.scope, demand.error, demand.resource_metadata];
            assert!(all.iter().flatten().all(|value| value.len() <= header.len()));
        }
    },
};

pub(crate) const METADATA: Target = Target {
    name: "metadata",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "\"issuer\":",
        "\"https://a.example\"",
        "\"http://127.0.0.1:1/\"",
        "\"http://a.example\"",
        "\"https://u:p@a\"",
        "\"file:///x\"",
        "\"resource\":",
        "\"authorization_servers\":[",
        "\"authorization_endpoint\":",
        "\"token_endpoint\":",
        "\"code_challenge_methods_supported\":[\"S256\"]",
        "\"error\":",
        "\"error_description\":",
        "#",
        "/",
        "..",
        "%2e",
    ],
    most: 40,
    seeds: || {
        let server = r#"{"issuer":"https://a.example","authorization_endpoint":"https://a.example/a","token_endpoint":"https://a.example/t","code_challenge_methods_supported":["S256"]}"#;
        let resource =
            r#"{"resource":"https://a.example/mcp","authorization_servers":["https://a.example"]}"#;
        [server, resource, r#"{"error":"x","error_description":"y"}"#].map(str::to_owned).into()
    },
    run: |input| {
        if let Ok(metadata) = serde_json::from_slice::<AuthServerMetadata>(input)
            && let Ok(metadata) = metadata.checked("https://a.example")
        {
            for used in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
                let url = endpoint("endpoint", used).unwrap();
                assert!(url.username().is_empty() && url.fragment().is_none());
                assert!(url.scheme() == "https" || url.host_str().is_some_and(|host| host != "a.example"));
            }
        }
        let server = Url::parse("https://a.example/mcp").unwrap();
        if let Ok(resource) = serde_json::from_slice::<ResourceMetadata>(input)
            && let Ok(resource) = resource.checked(&server)
        {
            assert!(Url::parse(&resource.resource).is_ok_and(|url| url.origin() == server.origin()));
            let _ = resource.issuer(Some("https://b.example"));
        }
        let said = error_response::said(input);
        assert!(said.chars().count() <= 204 && !said.chars().any(char::is_control), "{said}");
    },
};

pub(crate) const CALLBACKS: Target = Target {
    name: "callbacks",
    parts: &[
        "code=",
        "state=",
        "s1",
        "s2",
        "iss=",
        "https%3A%2F%2Fas",
        "error=",
        "error_description=",
        "&",
        "=",
        "%",
        "%00",
        "+",
        ";",
        "#",
    ],
    most: 20,
    seeds: || {
        vec![
            "code=c&state=s1&iss=https%3A%2F%2Fas".to_owned(),
            "error=x&state=s1&error_description=y".to_owned(),
        ]
    },
    run: |input| {
        let query = String::from_utf8_lossy(input);
        let expected = ExpectedCallback {
            state: "s1".into(),
            issuer: "https://as".into(),
            names_issuer: input.len() % 2 == 0,
        };
        match judge(&query, &expected) {
            Some(CallbackResult::Code(code)) => assert!(!code.is_empty() && query.contains("s")),
            Some(CallbackResult::Denied(why)) => {
                assert!(why.chars().count() <= 201 && !why.chars().any(char::is_control))
            }
            Some(CallbackResult::WrongIssuer(_)) | None => {}
        }
        // Without our state, nothing is accepted.
        let other = ExpectedCallback { state: "not in any input: \u{1f512}".into(), ..expected };
        assert_eq!(judge(&query.replace('\u{1f512}', ""), &other), None);
    },
};
