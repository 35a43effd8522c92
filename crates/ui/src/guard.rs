//! The checks of every request before anything is done for it.
//!
//! ```text
//! Host: an address of this machine, no name ─▶ Origin: this page ─▶ token in the path ─▶ route
//! ```
//! A page of another origin that runs in the user's browser reaches this server, too. The name that it was loaded by may even
//! point to 127.0.0.1 meanwhile (DNS rebinding). The check of `Host` refuses the name, that of `Origin` refuses requests that
//! change something (CSRF), and neither page knows the token.
//!
//! # Scope and limits
//! A request without `Origin` is no request of a browser that changes something, such as one of curl, and needs the token as
//! all others. Any port is allowed in `Host`, because a forwarded port (`ssh -L`) may have another number.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::token::Token;

/// Path that needs no token.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// The rules of a server.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: Token,
    bound: IpAddr,
}

/// A refused request: status and reason.
pub(crate) type Refusal = (StatusCode, String);

impl Guard {
    pub(crate) fn new(token: Token, bound: SocketAddr) -> Self {
        Self { token, bound: bound.ip() }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The refusal, without a word on the token.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if uri.authority().is_some() {
            return Err((StatusCode::BAD_REQUEST, "this server is no proxy".to_owned()));
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err((StatusCode::BAD_REQUEST, "one header `Host` is needed".to_owned()));
        };
        let host = host.to_str().unwrap_or_default();
        if !self.is_own(host) {
            let problem = format!(
                "Host `{host}` is no address of this server: open the URL that `seeklab bench ui` printed"
            );
            return Err((StatusCode::FORBIDDEN, problem));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
                return Err((StatusCode::FORBIDDEN, format!("Origin `{origin}` is not this page")));
            }
        }
        if uri.path() == METRICS_PATH {
            return Ok(());
        }
        let first = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
        if !self.token.is(first) {
            let problem =
                "the token in the URL is missing or wrong: open the URL that `seeklab bench ui` printed";
            return Err((StatusCode::FORBIDDEN, problem.to_owned()));
        }
        Ok(())
    }

    /// Returns true if the value of `Host` names this server by its address.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => host,
        };
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        if inner.is_none() && name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        match inner.unwrap_or(name).parse::<IpAddr>() {
            // No name leads to an address that is written as one. Behind a wildcard address, every address may be ours.
            Ok(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut of = HeaderMap::new();
        for (name, value) in headers {
            of.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        guard.check(&path.parse().unwrap(), &of).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn host_must_be_an_address_of_this_server() {
        let token = Token::random().unwrap();
        let path = format!("/{}/", token.text());
        let guard = Guard::new(token.clone(), "127.0.0.1:8437".parse().unwrap());
        let of = |host| check(&guard, &path, &[("host", host)]);
        for own in
            ["127.0.0.1:8437", "localhost:8437", "LOCALHOST", "127.0.0.1:9000", "[::1]:8437", "127.0.0.1"]
        {
            assert_eq!(of(own), 200, "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:8437",
            "10.0.0.5:8437",
            "127.0.0.1.evil.example",
            "[localhost]",
            "",
        ] {
            assert_eq!(of(other), 403, "{other}");
        }
        assert_eq!(check(&guard, &path, &[]), 400);
        assert_eq!(check(&guard, &path, &[("host", "localhost"), ("host", "evil.example")]), 400);
        assert_eq!(check(&guard, &format!("http://localhost{path}"), &[("host", "localhost")]), 400);
        let everywhere = Guard::new(token, "0.0.0.0:8437".parse().unwrap());
        assert_eq!(check(&everywhere, &path, &[("host", "10.0.0.5:8437")]), 200);
        assert_eq!(check(&everywhere, &path, &[("host", "evil.example:8437")]), 403);
    }

    #[test]
    fn origin_must_be_this_page() {
        let token = Token::random().unwrap();
        let path = format!("/{}/api/start", token.text());
        let guard = Guard::new(token, "127.0.0.1:8437".parse().unwrap());
        let of = |origin| check(&guard, &path, &[("host", "localhost:8437"), ("origin", origin)]);
        assert_eq!(of("http://localhost:8437"), 200);
        for other in ["null", "http://localhost:9000", "https://localhost:8437", "http://evil.example", ""] {
            assert_eq!(of(other), 403, "{other}");
        }
    }

    #[test]
    fn token_is_needed_for_everything_but_the_metrics() {
        let token = Token::random().unwrap();
        let guard = Guard::new(token.clone(), "127.0.0.1:8437".parse().unwrap());
        let of = |path: &str| check(&guard, path, &[("host", "localhost:8437")]);
        assert_eq!(of(&format!("/{}/api/runs", token.text())), 200);
        assert_eq!(of(METRICS_PATH), 200);
        for path in ["/", "/api/runs", "/metrics/x", "/0123456789abcdef0123456789abcdef/", "//"] {
            assert_eq!(of(path), 403, "{path}");
        }
    }
}
