//! Where a server is: `host:port`.

use std::{fmt, str::FromStr};

/// Redis's own.
const DEFAULT_PORT: u16 = 6379;

/// A host and a port, as `host:port`, `host`, or `[IPv6]:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
            Some(None) => return Err(()),
            None => match text.rsplit_once(':') {
                // An IPv6 address without brackets: whatever follows its last colon is no port.
                Some((host, _)) if host.contains(':') => (text, Some("")),
                Some((host, port)) => (host, Some(port)),
                None => (text, Some("")),
            },
        };
        let port = match port.ok_or(())? {
            "" => DEFAULT_PORT,
            digits => digits.parse().map_err(|_| ())?,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        match port != 0 && !host.is_empty() && host.bytes().all(plain) {
            true => Ok(Self { host: host.to_owned(), port }),
            false => Err(()),
        }
    }
}

impl fmt::Display for Address {
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
    fn addresses_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        for (text, means) in [
            ("redis-1:7000", "redis-1:7000"),
            (" 10.0.0.1 ", "10.0.0.1:6379"),
            ("[::1]:7000", "[::1]:7000"),
            ("[::1]", "[::1]:6379"),
            ("fe80::1", "[fe80::1]:6379"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(means), "{text}");
        }
        for text in ["", ":", ":7000", "a:0", "a:65536", "a:b", "[::1", "[::1]7", "redis://a:1", "a b:1", "u@h:1"] {
            assert_eq!(read(text), Err(()), "{text}");
        }
    }
}
