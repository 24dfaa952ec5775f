//! What a node is told of the collector.

use crate::endpoint::Endpoint;
use crate::headers::{BadHeaders, Headers};
use crate::tls;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where the traces go, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The collector.
    pub endpoint: Endpoint,
    /// The authorities (PEM) that it may have its certificate from; none: those that the system believes.
    pub authorities: Option<PathBuf>,
    /// The file with the headers that it wants.
    pub headers: Option<PathBuf>,
    /// Is what is sent compressed?
    pub gzip: bool,
    /// May plain words go to another machine? Headers never do.
    pub insecure_network: bool,
    /// How often, for how long, how much.
    pub pacing: Pacing,
}

/// Times and limits, of which each has its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// How often the cores are asked. A core keeps 128 traces: with one in 1,000 I/Os traced, none is lost while it does
    /// fewer than 512,000 I/Os a second.
    pub every: Duration,
    /// The most traces that wait: about 3 MB.
    pub waiting: usize,
    /// The most traces of a request, which has no more than 64 spans for each: at most 2 MB before it is compressed, half of what
    /// collectors take at least.
    pub batch: usize,
    /// The longest time for an attempt, from the look-up of the collector's name to the end of its answer: as OpenTelemetry has it.
    pub timeout: Duration,
    /// The pause after the first failure; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest of those pauses.
    pub longest_pause: Duration,
    /// The longest pause that a collector is granted.
    pub longest_wanted: Duration,
    /// A batch that could not be delivered for so long is given up: the collector's own exporters do so after five minutes.
    pub patience: Duration,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing {
            every: Duration::from_millis(250),
            waiting: 4096,
            batch: 128,
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            longest_wanted: Duration::from_secs(3600),
            patience: Duration::from_secs(300),
        }
    }
}

/// Why nothing can be sent by these settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSetting {
    /// The headers' file.
    #[error(transparent)]
    Headers(#[from] BadHeaders),
    /// The authorities.
    #[error("{0}")]
    Authorities(String),
    /// Plain words for another machine.
    #[error("{0}")]
    Plain(String),
    /// Authorities without TLS.
    #[error(
        "{endpoint} is spoken to without TLS, and authorities are for TLS: give an address that begins with https://"
    )]
    NoTls {
        /// The collector.
        endpoint: Endpoint,
    },
}

impl Settings {
    /// With the usual pacing, compressed.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Settings {
        Settings {
            endpoint,
            authorities: None,
            headers: None,
            gzip: true,
            insecure_network: false,
            pacing: Pacing::default(),
        }
    }

    /// Looks at all that can be looked at before anything is sent.
    ///
    /// # Errors
    /// See [`BadSetting`].
    pub fn check(&self) -> Result<(), BadSetting> {
        let headers = self.load_headers()?;
        if let (false, Ok(address)) = (self.endpoint.is_tls, self.endpoint.host.parse()) {
            self.check_plain(address, &headers).map_err(BadSetting::Plain)?;
        }
        if self.endpoint.is_tls {
            tls::config(self.authorities.as_deref()).map_err(BadSetting::Authorities)?;
        } else if self.authorities.is_some() {
            return Err(BadSetting::NoTls {
                endpoint: self.endpoint.clone(),
            });
        }
        Ok(())
    }

    /// May this address be spoken to without TLS?
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn check_plain(&self, address: IpAddr, headers: &Headers) -> Result<(), String> {
        if address.to_canonical().is_loopback() {
            return Ok(());
        }
        if !headers.is_empty() {
            return Err(format!(
                "{address} is another machine, to which no headers are sent without TLS: give an address that begins with https://"
            ));
        }
        if !self.insecure_network {
            return Err(format!(
                "{address} is another machine, to which nothing is sent without TLS: give an address that begins with https://, or \
                 --insecure-network where the network is the cluster's own"
            ));
        }
        Ok(())
    }

    /// The headers, as the file has them now.
    pub(crate) fn load_headers(&self) -> Result<Headers, BadHeaders> {
        self.headers
            .as_deref()
            .map_or_else(|| Ok(Headers::default()), Headers::load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn settings(endpoint: &str) -> Settings {
        Settings::new(Endpoint::parse(endpoint).unwrap())
    }

    #[test]
    fn what_cannot_work_is_said_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let said = |settings: &Settings| settings.check().map_err(|why| why.to_string());
        let mut plain = settings("http://127.0.0.1:4318");
        said(&plain).unwrap();
        plain.headers = Some(file("headers", "X-Token: hunter2\n"));
        said(&plain).unwrap();
        plain.authorities = Some(file("ca", "no PEM"));
        assert!(said(&plain).unwrap_err().contains("https://"));
        let mut secure = settings("https://127.0.0.1:4318");
        secure.authorities = plain.authorities.clone();
        assert!(said(&secure).unwrap_err().contains("no certificate in it"));
        secure.authorities = Some(folder.path().join("none"));
        assert!(said(&secure).unwrap_err().contains("give a file"));
        plain.headers = Some(file("bad", "hunter2\n"));
        let why = said(&plain).unwrap_err();
        assert!(why.contains("line 1") && !why.contains("hunter2"), "{why}");
    }

    #[test]
    fn plain_words_stay_on_this_machine_unless_the_network_is_the_clusters() {
        let mut other = settings("http://192.0.2.1:4318");
        assert!(other.check().unwrap_err().to_string().contains("--insecure-network"));
        other.insecure_network = true;
        other.check().unwrap();
        let headers = Headers::parse("a: b").unwrap();
        let address = "192.0.2.1".parse().unwrap();
        assert!(other.check_plain(address, &headers).unwrap_err().contains("no headers"));
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            settings("http://otel")
                .check_plain(here.parse().unwrap(), &headers)
                .unwrap();
        }
    }
}
