//! The words of a line that names a key which somebody else keeps: an address, and `NAME=VALUE` behind it, apart by spaces, so that paths have
//! none. What is wrong with one is told without what stands there, which may be a secret that was put at a wrong place.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

const MAX_HOST_BYTES: usize = 253;

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host {
    /// A name, or an address without brackets.
    pub name: String,
    pub port: u16,
}

impl Host {
    /// Of `HOST[:PORT]`, or of `[ADDRESS][:PORT]`; `port`: where none is given.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str, port: u16) -> Result<Host, String> {
        let (name, given) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (
                host,
                Some(port.strip_prefix(':').ok_or("behind ] stands :PORT or nothing")?),
            ),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match given {
            None => port,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => {
                    return Err("its port is a number from 1 to 65535, and no path stands behind it".to_owned());
                }
                Ok(port) => port,
            },
        };
        let is_name = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
        let is_address = name.parse::<IpAddr>().is_ok();
        if !is_address && (name.is_empty() || name.len() > MAX_HOST_BYTES || !name.chars().all(is_name)) {
            return Err("its host is a name or an address, and no path stands behind it".to_owned());
        }
        let name = name.to_owned();
        Ok(Host { name, port })
    }

    /// As a URL has it.
    pub fn authority(&self) -> String {
        match self.name.contains(':') {
            true => format!("[{}]:{}", self.name, self.port),
            false => format!("{}:{}", self.name, self.port),
        }
    }
}

/// The values of these names, of the words behind an address.
///
/// # Errors
/// A word that is none of them, or stands there twice.
pub(super) fn named<'a, const N: usize>(
    words: impl Iterator<Item = &'a str>,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], String> {
    let mut given: [Option<&str>; N] = [None; N];
    for (number, word) in (1..).zip(words) {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("word {number} behind the address is no NAME=VALUE"))?;
        let at = names.iter().position(|known| *known == name).ok_or_else(|| {
            let names = names.join(", ");
            format!("the name of word {number} behind the address is none of {names}")
        })?;
        if given[at].replace(value).is_some() {
            return Err(format!("{name} stands there twice"));
        }
    }
    Ok(given)
}

/// A path that begins with a slash, where one is given.
///
/// # Errors
/// It does not.
pub(super) fn path(name: &str, value: Option<&str>) -> Result<Option<PathBuf>, String> {
    match value {
        Some(value) if !Path::new(value).is_absolute() => Err(format!("{name} is a path that begins with /")),
        value => Ok(value.map(PathBuf::from)),
    }
}
