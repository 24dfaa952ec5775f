//! Where a node's API is.

use std::fmt;
use std::net::IpAddr;

/// Where a node's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    is_tls: bool,
    host: String,
    port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Place {
    /// Reads `[http://|https://]HOST:PORT`. `proves`: whoever asks proves who they are, so that it is HTTPS where nothing is said.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn parse(text: &str, proves: bool) -> Result<Place, String> {
        let (said, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (Some(true), rest),
            (None, Some(rest)) => (Some(false), rest),
            (None, None) => (None, text),
        };
        let rest = rest.trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or("there is no port: give HOST:PORT")?;
        let port = port
            .parse()
            .map_err(|_| format!("{port:?} is no port: give HOST:PORT"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || host.contains(['/', '@', ' ']) || (bare.is_none() && host.contains(':')) {
            return Err(format!(
                "{host:?} is no host: give HOST:PORT, and [ADDRESS]:PORT for IPv6"
            ));
        }
        let is_here = match host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        };
        let is_tls = said.unwrap_or(proves || !is_here);
        if !is_tls && !is_here {
            return Err("without HTTPS only a node of this machine is asked, at an address of loopback".to_owned());
        }
        Ok(Place {
            is_tls,
            host: host.to_owned(),
            port,
        })
    }

    /// The host's name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Does a node have to prove who it is?
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_by_https_but_for_a_node_of_this_machine_to_which_nothing_is_proved() {
        let read = |text: &str, proves| {
            let place = Place::parse(text, proves).unwrap_or_else(|why| panic!("{text}: {why}"));
            (place.to_string(), place.is_tls())
        };
        let of = |text: &str, is_tls| (text.to_owned(), is_tls);
        assert_eq!(read("127.0.0.1:1", false), of("127.0.0.1:1", false));
        assert_eq!(read("127.0.0.1:1", true), of("127.0.0.1:1", true));
        assert_eq!(read("http://localhost:1/", true), of("localhost:1", false));
        assert_eq!(read("[::1]:1", false), of("[::1]:1", false));
        assert_eq!(read("n1.example:7710", false), of("n1.example:7710", true));
        assert_eq!(read("https://[2001:db8::1]:2", false), of("[2001:db8::1]:2", true));
        for (bad, why) in [
            ("http://n1.example:1", "HTTPS"),
            ("http://192.0.2.1:1", "HTTPS"),
            ("n1", "no port"),
            ("n1:x", "no port"),
            (":1", "no host"),
            ("::1:1", "no host"),
            ("a@b:1", "no host"),
            ("https://a/b:1", "no host"),
        ] {
            let refused = Place::parse(bad, false).expect_err(bad);
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
