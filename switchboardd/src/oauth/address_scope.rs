//! How private an IP address is. A public server must not send us to addresses reachable only from here
//! (SSRF). Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Ordered from private to public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressScope {
    /// This machine.
    Loopback,
    /// Private, link-local and reserved ranges.
    Private,
    Public,
}

impl AddressScope {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(inner) => of_v4(inner),
                None => of_v6(address),
            },
        }
    }

    /// The scope that a URL itself shows: by an IP address, or by a name that always means this machine.
    pub fn of_url(url: &Url) -> Option<Self> {
        match url.host()? {
            Host::Ipv4(address) => Some(of_v4(address)),
            Host::Ipv6(address) => Some(Self::of(address.into())),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                (name == "localhost" || name.ends_with(".localhost")).then_some(Self::Loopback)
            }
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "on this machine",
            Self::Private => "in a private network",
            Self::Public => "in the world",
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressScope {
    let [a, b, ..] = address.octets();
    if address.is_loopback() || address.is_unspecified() {
        AddressScope::Loopback
    } else if address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        // Carrier-grade NAT; "this network"; benchmarking; reserved.
        || (a == 100 && b & 0xc0 == 64)
        || a == 0
        || (a == 198 && b & 0xfe == 18)
        || a >= 240
    {
        AddressScope::Private
    } else {
        AddressScope::Public
    }
}

fn of_v6(address: Ipv6Addr) -> AddressScope {
    if address.is_loopback() || address.is_unspecified() {
        return AddressScope::Loopback;
    }
    let first = address.segments()[0];
    // An address that embeds an IPv4 address has the scope of that one.
    let segments = address.segments();
    let inner = match segments {
        [0x64, 0xff9b, .., high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = inner {
        return of_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    }
    // Unique local, link local, multicast, and everything else that is not global unicast.
    if first & 0xe000 == 0x2000 { AddressScope::Public } else { AddressScope::Private }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expect: AddressScope) {
        assert_eq!(AddressScope::of(address.parse().unwrap()), expect, "{address}");
    }

    #[test]
    fn addresses_have_their_scope() {
        for here in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
        {
            check(here, AddressScope::Loopback);
        }
        for near in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "198.18.0.1",
            "255.255.255.255",
            "0.1.2.3",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "2002:a00:1::",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
        ] {
            check(near, AddressScope::Private);
        }
        for far in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            check(far, AddressScope::Public);
        }
    }

    #[test]
    fn literal_urls_have_a_scope() {
        let written = |text: &str| AddressScope::of_url(&Url::parse(text).unwrap());
        assert_eq!(written("http://localhost:1/x"), Some(AddressScope::Loopback));
        assert_eq!(written("http://a.localhost./x"), Some(AddressScope::Loopback));
        assert_eq!(written("http://127.1/x"), Some(AddressScope::Loopback));
        assert_eq!(written("http://[fd00::1]/x"), Some(AddressScope::Private));
        assert_eq!(written("https://example.com/x"), None);
        assert!(
            AddressScope::Loopback < AddressScope::Private && AddressScope::Private < AddressScope::Public
        );
    }
}
