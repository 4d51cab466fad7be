//! Who may ask.
//!
//! On a loopback address everybody on the machine may, and so could a page in the browser of somebody who
//! works on it: a page may send requests anywhere, it only cannot read the answers. Two checks keep it from
//! driving jobs:
//!
//! - **Host.** A page that has its own name resolve to 127.0.0.1 could read answers too. So a request without
//!   a token names `localhost`, a loopback address, or the name that `rest.address` sets, as its host.
//! - **Origin.** A browser says of each request that changes something which page it comes from. One that
//!   comes from any page but the server's own is refused.
//!
//! With a token every request shows it, the reading ones too. A page does not know it.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, header};

use crate::reply::Refusal;
use crate::settings::RestSettings;

/// The checks, as the settings have them.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Option<String>,
    host: Option<String>,
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// `jobs.example:8081` without the port; `[::1]:8081` becomes `::1`.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Compares in a time that does not depend on where they differ.
fn same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

impl Guard {
    pub fn new(settings: &RestSettings) -> Self {
        Self { token: settings.token.clone(), host: settings.host.clone() }
    }

    /// # Errors
    /// Why the request is refused.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.token {
            Some(token) => Self::check_token(token, headers)?,
            None => self.check_host(headers)?,
        }
        if *method == Method::GET || *method == Method::HEAD {
            return Ok(());
        }
        Self::check_origin(headers)
    }

    fn check_token(token: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let shown = text(headers, header::AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, shown) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(shown.trim())
        });
        if shown.is_some_and(|shown| same(shown, token)) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            match shown {
                None => "this server asks for a token: send the header `Authorization: Bearer <token>`",
                Some(_) => "the token is not that of this server (`stillstream.rest.token`)",
            },
        ))
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(host) = text(headers, header::HOST.as_str()) else {
            return Err(Refusal::bad("the request names no host"));
        };
        let name = name_of(host);
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let known = |own: &str| own.eq_ignore_ascii_case(name);
        if is_loopback || known("localhost") || self.host.as_deref().is_some_and(known) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!(
                "this server answers to `localhost` and not to `{name}`: set `rest.address` to that name if it is this machine's"
            ),
        ))
    }

    fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
        let refused = |from: &str| {
            let message = format!("a page of `{from}` may not change anything here");
            Err(Refusal::new(StatusCode::FORBIDDEN, message))
        };
        let host = text(headers, header::HOST.as_str()).unwrap_or_default();
        // an older browser says only the page, and a newer one both
        for name in [header::ORIGIN, header::REFERER] {
            let Some(from) = headers.get(&name) else { continue };
            let from = from.to_str().unwrap_or("a page without a name");
            let page = from.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
            if host.is_empty() || page.is_none_or(|page| !page.eq_ignore_ascii_case(host)) {
                return refused(from);
            }
        }
        match text(headers, "sec-fetch-site") {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => refused("another site"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn status(guard: &Guard, method: Method, pairs: &[(&'static str, &str)]) -> u16 {
        guard.check(&method, &headers(pairs)).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    fn open() -> Guard {
        Guard::new(&RestSettings { host: Some("box.example".into()), ..RestSettings::default() })
    }

    #[test]
    fn a_name_that_is_not_the_machines_is_refused_also_for_reading() {
        for (host, expected) in [
            ("localhost:8081", 200),
            ("LOCALHOST", 200),
            ("127.0.0.1:9", 200),
            ("[::1]:8081", 200),
            ("Box.example:8081", 200),
            ("evil.example:8081", 403),
            ("127.0.0.1.evil.example", 403),
            ("localhost.evil.example", 403),
            ("10.0.0.7:8081", 403),
            ("", 403),
        ] {
            assert_eq!(status(&open(), Method::GET, &[("host", host)]), expected, "{host}");
        }
        assert_eq!(status(&open(), Method::GET, &[]), 400);
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let ask = |more: &[(&'static str, &str)]| {
            let pairs = [&[("host", "localhost:8081")], more].concat();
            status(&open(), Method::PATCH, &pairs)
        };
        assert_eq!(ask(&[]), 200, "a command line has no origin");
        assert_eq!(ask(&[("origin", "http://localhost:8081"), ("sec-fetch-site", "same-origin")]), 200);
        for pair in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:3000"),
            ("origin", "http://localhost:8081.evil.example"),
            ("referer", "http://evil.example/localhost:8081"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(ask(&[pair]), 403, "{pair:?}");
        }
        assert_eq!(
            status(&open(), Method::GET, &[("host", "localhost"), ("origin", "http://evil.example")]),
            200
        );
    }

    #[test]
    fn with_a_token_every_request_shows_it_whatever_its_host() {
        let guard =
            Guard::new(&RestSettings { token: Some("0123456789abcdef".into()), ..RestSettings::default() });
        for (shown, expected) in [
            ("Bearer 0123456789abcdef", 200),
            ("bearer 0123456789abcdef", 200),
            ("Bearer 0123456789abcdeF", 401),
            ("Bearer 0123456789abcde", 401),
            ("Bearer 0123456789abcdef0", 401),
            ("Basic 0123456789abcdef", 401),
            ("0123456789abcdef", 401),
        ] {
            for method in [Method::GET, Method::POST] {
                let pairs = [("host", "10.0.0.7:8081"), ("authorization", shown)];
                assert_eq!(status(&guard, method, &pairs), expected, "{shown}");
            }
        }
        assert_eq!(status(&guard, Method::GET, &[("host", "localhost")]), 401);
        let pairs = [
            ("host", "a:1"),
            ("authorization", "Bearer 0123456789abcdef"),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(status(&guard, Method::POST, &pairs), 403);
    }
}
