//! The line of the file that names a key of a KMIP server's:
//!
//! ```text
//! kmip:HOST[:PORT][,HOST[:PORT]...] key=ID cert-file=PATH key-file=PATH ca-file=PATH [way=encrypt|get] [version=1.4]
//! ```
//!
//! There is no secret in it: the client's key is in a file of its own.

use crate::volume_keys::words::{Host, named, path};
use amita_crypt::{Kmip, KmipVersion, KmipWay};
use std::path::PathBuf;

/// KMIP's own port.
const PORT: u16 = 5696;
/// The most servers of a line: each is tried before a question is given up.
const MAX_SERVERS: usize = 4;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Place {
    /// Never empty.
    pub servers: Vec<Host>,
    pub key: String,
    pub way: KmipWay,
    pub version: KmipVersion,
    /// The client's certificates, and its private key.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// Whom alone it believes.
    pub ca_file: PathBuf,
}

impl Place {
    /// Of what stands behind `kmip:`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Place, String> {
        let mut words = text.split_whitespace();
        let hosts = words.next().ok_or("there is no address: HOST[:PORT]")?;
        let servers: Result<Vec<Host>, String> = hosts.split(',').map(|host| Host::parse(host, PORT)).collect();
        let servers = servers?;
        if servers.len() > MAX_SERVERS {
            return Err(format!("more than {MAX_SERVERS} addresses"));
        }
        let names = ["key", "cert-file", "key-file", "ca-file", "way", "version"];
        let [key, cert_file, key_file, ca_file, way, version] = named(words, names)?;
        let place = Place {
            servers,
            key: key
                .ok_or("key=ID, the unique identifier of the server's key, is missing")?
                .to_owned(),
            way: way
                .map_or(Some(KmipWay::Encrypt), KmipWay::parse)
                .ok_or("way is encrypt or get")?,
            version: version
                .map_or(Some(KmipVersion::USUAL), KmipVersion::parse)
                .ok_or("version is one of 1.0 to 1.4, 2.0 and 2.1")?,
            cert_file: path("cert-file", cert_file)?
                .ok_or("cert-file=PATH, with this client's certificate, is missing")?,
            key_file: path("key-file", key_file)?.ok_or("key-file=PATH, with this client's private key, is missing")?,
            ca_file: path("ca-file", ca_file)?
                .ok_or("ca-file=PATH is missing: whom to believe who says that it is the server")?,
        };
        place.provider()?;
        Ok(place)
    }

    /// What asks it.
    ///
    /// # Errors
    /// An identifier that is none, or a version in which the server would bind nothing.
    pub fn provider(&self) -> Result<Kmip, String> {
        Kmip::new(&self.key, self.way, self.version).map_err(|why| why.to_string())
    }

    /// For people.
    pub fn name(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(Host::authority).collect();
        format!("KMIP server at {}", servers.join(", "))
    }
}
