//! The line of the file that names a key of Vault's:
//!
//! ```text
//! vault:https://HOST[:PORT] key=NAME token-file=PATH ca-file=PATH [mount=PATH] [namespace=PATH]
//! ```
//!
//! There is no secret in it: the token is in a file of its own.

use crate::volume_keys::words::{Host, named, path};
use amita_crypt::Transit;
use std::net::IpAddr;
use std::path::PathBuf;

/// Vault's own port.
const PORT: u16 = 8200;
const MOUNT: &str = "transit";

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Place {
    /// By HTTPS; else by HTTP, to this machine alone.
    pub is_tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
    pub mount: String,
    pub key: String,
    pub namespace: Option<String>,
    pub token_file: PathBuf,
    /// Whom alone it believes; with HTTPS.
    pub ca_file: Option<PathBuf>,
}

impl Place {
    /// Of what stands behind `vault:`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Place, String> {
        let mut words = text.split_whitespace();
        let address = words.next().ok_or("there is no address: https://HOST[:PORT]")?;
        let (is_tls, host, port) = parse_address(address)?;
        let names = ["key", "token-file", "ca-file", "mount", "namespace"];
        let given = named(words, names)?;
        let [key, token_file, ca_file, mount, namespace] = given;
        let place = Place {
            is_tls,
            host,
            port,
            mount: mount.unwrap_or(MOUNT).to_owned(),
            key: key.ok_or("key=NAME, of Vault's key, is missing")?.to_owned(),
            namespace: namespace.map(str::to_owned),
            token_file: path("token-file", token_file)?.ok_or("token-file=PATH, with Vault's token, is missing")?,
            ca_file: path("ca-file", ca_file)?,
        };
        match (is_tls, &place.ca_file) {
            (true, None) => return Err("ca-file=PATH is missing: whom to believe who says that it is Vault".to_owned()),
            (false, Some(_)) => {
                return Err("with http:// nobody shows a certificate, and ca-file= is for nothing".to_owned());
            }
            _ => {}
        }
        place.provider()?;
        Ok(place)
    }

    /// What asks it.
    ///
    /// # Errors
    /// A name that Vault does not take.
    pub fn provider(&self) -> Result<Transit, String> {
        Transit::without_token(&self.mount, &self.key, self.namespace.as_deref()).map_err(|why| why.to_string())
    }

    /// What is to be known of it, for people.
    pub fn warning(&self) -> Option<&'static str> {
        const WARNING: &str = "by http:// nobody shows who he is: any program of this machine that has that port gets the token and all data keys. \
             See that none but Vault's agent can have it, or name one that shows a certificate, by https:// and its ca-file";
        (!self.is_tls).then_some(WARNING)
    }

    /// As a URL has it.
    pub fn authority(&self) -> String {
        let (name, port) = (self.host.clone(), self.port);
        Host { name, port }.authority()
    }
}

fn parse_address(address: &str) -> Result<(bool, String, u16), String> {
    let (is_tls, rest) = match (address.strip_prefix("https://"), address.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err("the address begins with https://".to_owned()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let Host { name, port } = Host::parse(rest, PORT)?;
    if !is_tls && !name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        return Err(
            "http:// leads to this machine alone, by its address (127.0.0.1, [::1]): to an agent of Vault's there; else https://".to_owned(),
        );
    }
    Ok((is_tls, name, port))
}
