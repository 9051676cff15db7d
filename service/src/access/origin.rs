//! By which names the service may be reached, and from which pages.
//!
//! A page of a stranger that a browser shows can send requests to this machine: under a name of its own that it has let point
//! here, or across origins. Both are told apart by headers that a page can't choose.

use axum::http::{HeaderMap, Method, Uri, header, uri::Authority};

/// Which hosts and origins are let in.
#[derive(Clone, Debug, Default)]
pub struct OriginPolicy {
    /// Names by which the service may be reached, without ports; none: any.
    hosts: Option<Vec<String>>,
    /// Origins of pages beside the service's own.
    origins: Vec<String>,
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginRefusal {
    /// The name is not one of the service's.
    Host,
    /// The page is another's.
    Origin,
}

const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl OriginPolicy {
    /// Of a service on loopback: the names of this machine, and these beside.
    pub fn of_loopback(hosts: &[String], origins: &[String]) -> Self {
        let own = LOOPBACK_NAMES.map(str::to_owned);
        Self { hosts: Some(own.into_iter().chain(hosts.iter().cloned()).collect()), origins: origins.to_vec() }
    }

    /// Of a service that others reach, which asks for keys: these names, or any if there are none. No browser adds a key by
    /// itself, so a name that a stranger chose opens nothing.
    pub fn of_public(hosts: &[String], origins: &[String]) -> Self {
        Self { hosts: (!hosts.is_empty()).then(|| hosts.to_vec()), origins: origins.to_vec() }
    }

    /// Lets a request in.
    ///
    /// # Errors
    /// When its host or its origin is a stranger's.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), OriginRefusal> {
        // A target with an authority is one for a proxy. Which of the two names would hold, `Host` or it?
        if uri.authority().is_some() {
            return Err(OriginRefusal::Host);
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
        let host = host.ok_or(OriginRefusal::Host)?;
        let authority: Authority = host.parse().map_err(|_| OriginRefusal::Host)?;
        if let Some(allowed) = &self.hosts
            && !allowed.iter().any(|name| name.eq_ignore_ascii_case(authority.host()))
        {
            return Err(OriginRefusal::Host);
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
            return Err(OriginRefusal::Origin);
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().map_err(|_| OriginRefusal::Origin)?;
            let is_own = origin.split_once("://").is_some_and(|(_, page)| page.eq_ignore_ascii_case(host));
            if !is_own && !self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
                return Err(OriginRefusal::Origin);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn check(policy: &OriginPolicy, method: Method, given: &[(&'static str, &str)]) -> Option<OriginRefusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        policy.check(&method, &"/keepline/v1/sessions".parse().unwrap(), &headers).err()
    }

    #[test]
    fn only_names_of_this_machine_and_pages_of_the_service_are_let_in() {
        use OriginRefusal::{Host, Origin};
        let policy = OriginPolicy::of_loopback(&["memory.test".into()], &["https://app.test".into()]);
        for (given, expected) in [
            (&[("host", "localhost:7777")][..], None),
            (&[("host", "127.0.0.1")], None),
            (&[("host", "[::1]:7777")], None),
            (&[("host", "MEMORY.test")], None),
            (&[("host", "evil.test")], Some(Host)),
            (&[("host", "localhost.evil.test")], Some(Host)),
            (&[("host", "")], Some(Host)),
            (&[], Some(Host)),
            (&[("host", "localhost"), ("host", "evil.test")], Some(Host)),
            (&[("host", "localhost:7777"), ("origin", "http://localhost:7777")], None),
            (&[("host", "localhost:7777"), ("origin", "http://localhost:1")], Some(Origin)),
            (&[("host", "localhost:7777"), ("origin", "http://evil.test")], Some(Origin)),
            (&[("host", "localhost:7777"), ("origin", "null")], Some(Origin)),
            (&[("host", "localhost:7777"), ("origin", "https://app.test")], None),
            (&[("host", "localhost"), ("sec-fetch-site", "cross-site")], Some(Origin)),
            (&[("host", "localhost"), ("sec-fetch-site", "same-origin")], None),
        ] {
            assert_eq!(check(&policy, Method::POST, given), expected, "{given:?}");
        }
        assert_eq!(check(&policy, Method::GET, &[("host", "localhost"), ("sec-fetch-site", "cross-site")]), None);
        let proxied = "http://localhost/x".parse().unwrap();
        assert_eq!(policy.check(&Method::GET, &proxied, &HeaderMap::new()), Err(Host));
        let public = OriginPolicy::of_public(&[], &[]);
        assert_eq!(check(&public, Method::POST, &[("host", "any.test")]), None);
        assert_eq!(check(&public, Method::POST, &[("host", "any.test"), ("origin", "http://evil.test")]), Some(Origin));
    }
}
