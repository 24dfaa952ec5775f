//! Hosts: who may connect to which subsystem, and what they have to prove.
//!
//! Secrets come here sealed: what is written to the metadata can be read by whoever has the cluster's sealing key, and by
//! nobody else.

use super::nqn::check_nqn;
use super::subsystem::{all_subsystems, change_subsystem, find_subsystem, put, unchanged};
use super::unreadable::{Listed, What, named, whatever};
use super::{AdminError, Result, get, names_under, put_if, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, Host, Subsystem};

/// Hosts that one subsystem allows, at most.
pub const MAX_HOSTS: usize = 1024;
/// What records of hosts are.
const WHAT: What = What {
    name: "host",
    ends_by: "host remove",
    flag: " --force",
};

/// What each secret of a host is sealed for: its field in the record.
pub mod field {
    /// The host's secret for DH-HMAC-CHAP.
    pub const DHCHAP: &str = "dhchap";
    /// The controllers' secret for it.
    pub const DHCHAP_CONTROLLER: &str = "dhchap_controller";
    /// The pre-shared key for TLS.
    pub const TLS: &str = "tls";
}

/// A secret of a host, or of an initiator, that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Secret {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is this one, sealed.
    Sealed(String),
    /// There is none any more.
    Remove,
}

impl Secret {
    pub(super) fn set(&self, of: &mut Option<String>) {
        match self {
            Secret::Keep => {}
            Secret::Sealed(sealed) => *of = Some(sealed.clone()),
            Secret::Remove => *of = None,
        }
    }
}

/// The secrets of a host that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostKeys {
    /// What it proves to have by DH-HMAC-CHAP.
    pub dhchap: Secret,
    /// What controllers prove to have.
    pub dhchap_controller: Secret,
    /// The pre-shared key for TLS.
    pub tls: Secret,
}

impl HostKeys {
    fn set(&self, name: &str, host: &mut Host) -> Result<()> {
        self.dhchap.set(&mut host.dhchap);
        self.dhchap_controller.set(&mut host.dhchap_controller);
        self.tls.set(&mut host.tls);
        // A controller proves itself only in the course of the host's own proof (NVM Express Base 2.1, 8.3.5.5).
        if host.dhchap_controller.is_some() && host.dhchap.is_none() {
            return Err(AdminError::BadSetting {
                what: "host",
                name: name.to_owned(),
                why: "a key of the controllers without one of the host: the host has to prove itself first; give it a \
                      key as well"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

/// All hosts by name.
///
/// # Errors
/// The metadata is away.
pub fn hosts(meta: &dyn Transact) -> Result<Listed<Host>> {
    Listed::read(meta, WHAT, &map::hosts_prefix())
}

/// A host by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn host(meta: &dyn Transact, nqn: &str) -> Result<Host> {
    find_host(meta, nqn).map(|(found, _)| found)
}

fn find_host(meta: &dyn Transact, nqn: &str) -> Result<(Host, u64)> {
    match named(meta, WHAT, nqn, &map::host_key(nqn))? {
        Some(found) => Ok(found),
        None => Err(none_such(meta, nqn)?),
    }
}

fn none_such(meta: &dyn Transact, nqn: &str) -> Result<AdminError> {
    Ok(AdminError::NoSuch {
        what: "host",
        name: nqn.to_owned(),
        there: names_under(meta, &map::hosts_prefix())?,
    })
}

/// Makes a host known. It may connect nowhere until it is allowed to.
///
/// # Errors
/// No qualified name, one that is known already; the metadata is away or refuses.
pub fn add_host(meta: &dyn Transact, nqn: &str, keys: &HostKeys) -> Result<Host> {
    check_nqn("host", nqn)?;
    let mut made = Host {
        nqn: nqn.to_owned(),
        dhchap: None,
        dhchap_controller: None,
        tls: None,
    };
    keys.set(nqn, &mut made)?;
    if put_if(meta, &map::host_key(nqn), 0, &made)? {
        return Ok(made);
    }
    Err(AdminError::Exists {
        what: "host",
        name: nqn.to_owned(),
    })
}

/// Changes what a host has to prove. Connections that it has are not touched; the next one is held to it.
///
/// # Errors
/// No such host; the metadata is away or refuses.
pub fn set_host_keys(meta: &dyn Transact, nqn: &str, keys: &HostKeys) -> Result<Host> {
    let key = map::host_key(nqn);
    for _ in tries(meta) {
        let (old, revision) = find_host(meta, nqn)?;
        let mut new = old.clone();
        keys.set(nqn, &mut new)?;
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Seals the secrets of a host anew: `seal` is given the field and the secret as it is sealed, and returns it sealed anew.
/// `None`: the host is gone. The host's secrets stay what they are, whoever changes them meanwhile.
///
/// # Errors
/// What `seal` says; or the metadata is away or refuses.
pub fn reseal_host<E: From<AdminError>>(
    meta: &dyn Transact,
    nqn: &str,
    mut seal: impl FnMut(&'static str, &str) -> std::result::Result<String, E>,
) -> std::result::Result<Option<Host>, E> {
    let key = map::host_key(nqn);
    for _ in tries(meta) {
        let Some((old, revision)) = get::<Host>(meta, &key)? else {
            return Ok(None);
        };
        let mut new = old.clone();
        for (field, secret) in [
            (field::DHCHAP, &mut new.dhchap),
            (field::DHCHAP_CONTROLLER, &mut new.dhchap_controller),
            (field::TLS, &mut new.tls),
        ] {
            if let Some(sealed) = secret {
                *sealed = seal(field, sealed)?;
            }
        }
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok(Some(new));
        }
    }
    Err(AdminError::TooManyRaces { key }.into())
}

/// Lets a host connect to a subsystem; one that may already, may.
///
/// # Errors
/// No such subsystem or host; too many hosts; the metadata is away or refuses.
pub fn allow_host(meta: &dyn Transact, subsystem: &str, nqn: &str) -> Result<Subsystem> {
    let key = map::subsystem_key(subsystem);
    for _ in tries(meta) {
        let (host, host_revision) = find_host(meta, nqn)?;
        let (mut found, revision) = find_subsystem(meta, subsystem)?;
        if found.hosts.iter().any(|known| known == nqn) {
            return Ok(found);
        }
        if found.hosts.len() >= MAX_HOSTS {
            return Err(AdminError::Full {
                what: "subsystem",
                name: subsystem.to_owned(),
                of: "hosts",
                most: MAX_HOSTS,
            });
        }
        found.hosts.push(nqn.to_owned());
        found.hosts.sort();
        let call = Call {
            compares: vec![unchanged(&map::host_key(nqn), host_revision), unchanged(&key, revision)],
            // The host's is written again: who removes it meanwhile, because nothing lets it in, looks again.
            then: vec![put(map::host_key(nqn), &host), put(key.clone(), &found)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(found);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// A host may connect to a subsystem no more; if it is connected it is cut off.
///
/// # Errors
/// No such subsystem, or the host is not allowed there; the metadata is away or refuses.
pub fn deny_host(meta: &dyn Transact, subsystem: &str, nqn: &str) -> Result<Subsystem> {
    change_subsystem(meta, subsystem, |found| {
        let Some(at) = found.hosts.iter().position(|known| known == nqn) else {
            return Err(AdminError::NotAllowed {
                host: nqn.to_owned(),
                subsystem: subsystem.to_owned(),
                allowed: found.hosts.clone(),
            });
        };
        found.hosts.remove(at);
        Ok(())
    })
}

/// Forgets a host and its secrets; `force`: and denies it wherever it is allowed. `None`: nobody could read what was known of it.
///
/// # Errors
/// No such host, or it is allowed somewhere, or its record cannot be read (and `force` is not given); a subsystem whose record cannot be read
/// may allow it; the metadata is away or refuses.
pub fn remove_host(meta: &dyn Transact, nqn: &str, force: bool) -> Result<Option<Host>> {
    let key = map::host_key(nqn);
    for _ in tries(meta) {
        let Some((found, revision)) = whatever::<Host>(meta, WHAT, nqn, &key)? else {
            return Err(none_such(meta, nqn)?);
        };
        let found = match found {
            Err(AdminError::Unreadable { .. }) if force => None,
            found => Some(found?),
        };
        let subsystems = all_subsystems(meta)?;
        subsystems.none_may_say("allow", nqn)?;
        let allowed: Vec<String> = subsystems
            .readable
            .into_iter()
            .filter(|subsystem| subsystem.hosts.iter().any(|known| known == nqn))
            .map(|subsystem| subsystem.name)
            .collect();
        if !allowed.is_empty() && !force {
            return Err(AdminError::Allowed {
                host: nqn.to_owned(),
                subsystems: allowed,
            });
        }
        // First nobody lets it in any more, then its secrets go: never is a host allowed that has lost its key, for it would
        // have nothing to prove.
        for subsystem in &allowed {
            match deny_host(meta, subsystem, nqn) {
                Ok(_) | Err(AdminError::NotAllowed { .. } | AdminError::NoSuch { .. }) => {}
                Err(why) => return Err(why),
            }
        }
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(found);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
