//! A user's browser: opens a page and follows every redirect.

use std::net::ToSocketAddrs;

use url::Url;

use crate::{Endpoint, Request};

/// The page after the last redirect.
#[derive(Debug)]
pub struct PageVisit {
    pub status: u16,
    pub url: Url,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Opens a local page and follows every redirect.
pub fn browse(page: &str) -> PageVisit {
    let mut url = Url::parse(page).unwrap_or_else(|error| panic!("{error}: {page}"));
    for _ in 0..10 {
        let answer = get(&url);
        let place = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        match place {
            Some((_, place)) if (300..400).contains(&answer.status) => url = url.join(place).unwrap(),
            _ => {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                return PageVisit { status: answer.status, url, headers: answer.headers, body };
            }
        }
    }
    panic!("redirects without an end: {url}");
}

fn get(url: &Url) -> crate::Response {
    let (host, port) = (url.host_str().unwrap(), url.port_or_known_default().unwrap());
    let mut addresses: Vec<_> = (host, port).to_socket_addrs().unwrap().collect();
    addresses.sort_by_key(|address| !address.is_ipv4());
    let endpoint = addresses.into_iter().map(Endpoint::Tcp).find(|endpoint| endpoint.connect().is_ok());
    let endpoint = endpoint.unwrap_or_else(|| panic!("nobody at {url}"));
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    endpoint.send(&Request::new("GET", &target).header("Host", &format!("{host}:{port}")))
}
