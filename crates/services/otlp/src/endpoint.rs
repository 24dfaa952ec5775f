//! Where the collector is: a URL without anything that would have to be kept secret.

use std::fmt;

/// The path that OTLP has for traces.
const TRACES: &str = "/v1/traces";

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Is TLS spoken?
    pub is_tls: bool,
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    /// From 1 on.
    pub port: u16,
    /// What is asked for, from its first `/` on.
    pub path: String,
}

impl Endpoint {
    /// Reads `http[s]://HOST[:PORT][/PATH]`. To the path `/v1/traces` is added, unless it ends so.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence that does not repeat it: somebody may have put a password there.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let bad = |why: &str| format!("the collector's address {why}: give http[s]://HOST[:PORT][/PATH]");
        let uri: http::Uri = text.parse().map_err(|_| bad("cannot be read"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("begins with neither https:// nor http://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad(
                "has a name or a password in it, which everybody on this machine would see (put it into the headers' file)",
            ));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(bad(
                "has a query or a fragment (a token belongs into the headers' file)",
            ));
        }
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return Err(bad("has no host"));
        }
        let usual = if is_tls { 443 } else { 80 };
        let port = match authority.as_str()[authority.host().len()..].strip_prefix(':') {
            None => usual,
            Some(text) => {
                let port = text.parse().ok().filter(|port| *port > 0);
                port.ok_or_else(|| bad("has a port that cannot be (they are 1 to 65535)"))?
            }
        };
        let base = uri.path().trim_end_matches('/');
        let path = match base.ends_with(TRACES) {
            true => base.to_owned(),
            false => format!("{base}{TRACES}"),
        };
        Ok(Endpoint {
            is_tls,
            host: host.to_owned(),
            port,
            path,
        })
    }

    /// Host and port, as HTTP's `Host` has them.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read() {
        for (given, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example", "https://otel.example:443/v1/traces"),
            ("http://otel", "http://otel:80/v1/traces"),
            ("https://a:1/tenants/7/", "https://a:1/tenants/7/v1/traces"),
            ("https://a:1/x/v1/traces", "https://a:1/x/v1/traces"),
            ("https://[::1]:4318", "https://[::1]:4318/v1/traces"),
        ] {
            let endpoint = Endpoint::parse(given).unwrap();
            assert_eq!(endpoint.to_string(), shown, "{given}");
            assert_eq!(Endpoint::parse(shown).unwrap(), endpoint);
        }
        assert_eq!(Endpoint::parse("https://[::1]:4318").unwrap().host, "::1");
    }

    #[test]
    fn what_is_wrong_is_said_and_not_repeated() {
        for (given, why) in [
            ("", "cannot be read"),
            ("otel:4318", "neither"),
            ("ftp://hunter2", "neither"),
            ("/v1/traces", "neither"),
            ("https://me:hunter2@otel", "password"),
            ("https://otel/?key=hunter2", "query"),
            ("https://otel/#hunter2", "fragment"),
            ("https://otel:0", "a port that cannot be"),
            ("https://otel:", "a port that cannot be"),
            ("https://otel:70000/hunter2", "a port that cannot be"),
        ] {
            let said = Endpoint::parse(given).unwrap_err();
            assert!(said.contains(why) && !said.contains("hunter2"), "{given}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,60}") {
            if let Ok(endpoint) = Endpoint::parse(&text) {
                prop_assert_eq!(Endpoint::parse(&endpoint.to_string()).ok(), Some(endpoint));
            }
        }
    }
}
