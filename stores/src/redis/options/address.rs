//! The address of a server: `host:port`.

use std::{fmt, net::Ipv6Addr, str::FromStr};

/// Redis's own.
const DEFAULT_PORT: u16 = 6379;

/// A host and a port, as `host:port`, `host`, or `[IPv6]:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// A name or an IP address.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl FromStr for ServerAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        let (host, port) = match text.rsplit_once(':') {
            // Within an IPv6 address, whatever follows its last colon is no port.
            Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
            _ => (text, ""),
        };
        let port = if port.is_empty() { DEFAULT_PORT } else { port_of(port)? };
        Self::checked(without_brackets(host), port)
    }
}

impl ServerAddress {
    /// As a node of a cluster names another one: `host:port`, the port behind the last colon also where the host
    /// is an IPv6 address, which has no brackets there. No host, or `?`, is the host of the server that says so.
    pub(crate) fn of_redirection(text: &str, said_by: &Self) -> Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let host = without_brackets(host);
        let host = if is_unknown(host) { &said_by.host } else { host };
        Self::checked(host, port_of(port)?)
    }

    fn checked(host: &str, port: u16) -> Result<Self, ()> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        // No name has a colon.
        let address = host.split('%').next().unwrap_or(host);
        let is_host = !host.is_empty() && (!host.contains(':') || address.parse::<Ipv6Addr>().is_ok());
        match port != 0 && is_host && host.bytes().all(plain) {
            true => Ok(Self { host: host.to_owned(), port }),
            false => Err(()),
        }
    }
}

pub(crate) fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// How a node writes a name that it does not know, in a redirection or in its map.
pub(crate) fn is_unknown(host: &str) -> bool {
    host.is_empty() || host == "?"
}

/// Digits only: numbers in Rust may have a sign.
fn port_of(digits: &str) -> Result<u16, ()> {
    match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().map_err(|_| ()),
        false => Err(()),
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_with_and_without_port_and_brackets() {
        let read = |text: &str| text.parse::<ServerAddress>().map(|address| address.to_string());
        for (text, means) in [
            ("redis-1:7000", "redis-1:7000"),
            (" 10.0.0.1 ", "10.0.0.1:6379"),
            ("[::1]:7000", "[::1]:7000"),
            ("[::1]", "[::1]:6379"),
            ("fe80::1", "[fe80::1]:6379"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(means), "{text}");
        }
        for text in
            ["", ":", ":7000", "a:0", "a:65536", "a:b", "a:+1", "[::1", "[::1]7", "redis://a:1", "a b:1", "u@h:1"]
        {
            assert_eq!(read(text), Err(()), "{text}");
        }
    }

    #[test]
    fn redirections_are_read_as_redis_writes_them() {
        let said_by: ServerAddress = "[fe80::2]:7000".parse().unwrap();
        let read =
            |text: &str| ServerAddress::of_redirection(text, &said_by).map(|address| (address.host, address.port));
        for (text, host, port) in [
            ("10.0.0.1:7001", "10.0.0.1", 7001),
            ("redis-1.example:7001", "redis-1.example", 7001),
            ("::1:7001", "::1", 7001),
            ("2001:db8::1:7001", "2001:db8::1", 7001),
            ("fe80::1%eth0:7001", "fe80::1%eth0", 7001),
            ("[2001:db8::1]:7001", "2001:db8::1", 7001),
            (":7001", "fe80::2", 7001),
            ("?:7001", "fe80::2", 7001),
        ] {
            assert_eq!(read(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["", "7001", "::1", "a:0", "a:", "a:65536", "a:-1", "a:+1", "a b:1", "a?:1"] {
            assert_eq!(read(text), Err(()), "{text}");
        }
    }
}
