//! What a client may: the capability that stands in its certificate (decision 038). How it stands there is in the crate
//! `amita-identity`.

use crate::id::{PoolId, VolumeId};
use crate::name;
use std::fmt;

/// The most entries of a capability: all of it has to fit the certificate that a handshake carries.
pub const MAX_ENTRIES: usize = 64;
/// The longest name of a tenant.
pub const MAX_TENANT_BYTES: usize = 63;

/// What may be done with a volume: one of these at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// To read, to write and to own. To own means nothing yet: nodes own volumes, clients use them there (decision 038).
    pub const ALL: Rights = Rights(7);
    const WORDS: [(u8, &'static str); 3] = [(1, "read"), (2, "write"), (4, "own")];

    /// The sum of 1 (read), 2 (write) and 4 (own); `None`: it is no such sum.
    #[must_use]
    pub fn new(bits: u8) -> Option<Rights> {
        (1..=Rights::ALL.0).contains(&bits).then_some(Rights(bits))
    }

    /// To read, and nothing else.
    pub const READ: Rights = Rights(1);

    /// The sum.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// These and those.
    #[must_use]
    pub fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// May it be read?
    #[must_use]
    pub fn reads(self) -> bool {
        self.0 & 1 != 0
    }

    /// May it be written?
    #[must_use]
    pub fn writes(self) -> bool {
        self.0 & 2 != 0
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Rights::WORDS.iter().filter(|(bit, _)| self.0 & bit != 0);
        f.write_str(&words.map(|(_, word)| *word).collect::<Vec<_>>().join(", "))
    }
}

/// What an entry of a capability is about. By number: names are given again, numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One volume.
    Volume(VolumeId),
    /// All volumes of a pool.
    Pool(PoolId),
    /// All volumes whose record names the tenant of the capability.
    Tenant,
}

impl Scope {
    /// Its kind (1 volume, 2 pool, 3 tenant) and number (0 with a tenant).
    #[must_use]
    pub fn parts(self) -> (u8, u64) {
        match self {
            Scope::Volume(volume) => (1, volume.0),
            Scope::Pool(pool) => (2, pool.0.into()),
            Scope::Tenant => (3, 0),
        }
    }

    /// Of its kind and number; `None`: there is no such one.
    #[must_use]
    pub fn of(kind: u8, number: u64) -> Option<Scope> {
        match (kind, number) {
            (1, volume) => Some(Scope::Volume(VolumeId(volume))),
            (2, pool) => Some(Scope::Pool(PoolId(u32::try_from(pool).ok()?))),
            (3, 0) => Some(Scope::Tenant),
            _ => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Volume(volume) => write!(f, "volume {volume}"),
            Scope::Pool(pool) => write!(f, "pool {pool}"),
            Scope::Tenant => f.write_str("the tenant's volumes"),
        }
    }
}

/// One entry of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What it is about.
    pub scope: Scope,
    /// What may be done with that.
    pub rights: Rights,
}

/// Why something cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGrant {
    /// It has too many entries.
    #[error("it has {0} entries, and {MAX_ENTRIES} are the most")]
    Entries(usize),
    /// Two entries are about the same.
    #[error("it names {0} twice")]
    Twice(Scope),
    /// The tenant cannot be called so.
    #[error("its tenant is called {name:?}: {why}")]
    Tenant {
        /// The beginning of what it is called.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It grants a tenant's volumes and names no tenant.
    #[error("it is for a tenant's volumes, and names no tenant")]
    NoTenant,
}

/// What is granted: a tenant, and entries in the order of their scopes, none of them about the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    tenant: String,
    entries: Vec<Entry>,
}

impl Grant {
    /// Of these entries, in any order. `tenant` may be empty, and is else what a name may be
    /// ([`name::fault`]), of [`MAX_TENANT_BYTES`] at most.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(tenant: impl Into<String>, mut entries: Vec<Entry>) -> Result<Grant, BadGrant> {
        let tenant = tenant.into();
        if entries.len() > MAX_ENTRIES {
            return Err(BadGrant::Entries(entries.len()));
        }
        if let Some(why) = tenant_fault(&tenant) {
            let name = tenant.chars().take(MAX_TENANT_BYTES).collect();
            return Err(BadGrant::Tenant { name, why });
        }
        entries.sort_unstable_by_key(|entry| entry.scope);
        if let Some(two) = entries.windows(2).find(|two| two[0].scope == two[1].scope) {
            return Err(BadGrant::Twice(two[0].scope));
        }
        if tenant.is_empty() && entries.iter().any(|entry| entry.scope == Scope::Tenant) {
            return Err(BadGrant::NoTenant);
        }
        Ok(Grant { tenant, entries })
    }

    /// The tenant; empty: none.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// Why no tenant can be called so; empty is none, and no fault.
#[must_use]
pub fn tenant_fault(tenant: &str) -> Option<String> {
    if tenant.len() > MAX_TENANT_BYTES {
        return Some(format!("it has {} bytes, more than {MAX_TENANT_BYTES}", tenant.len()));
    }
    if tenant.is_empty() {
        return None;
    }
    name::fault(tenant)
}

/// What a client may. It ends with its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Capability {
    /// When it was made, in seconds since 1970 (UTC).
    pub made_s: u64,
    /// What is granted.
    pub grant: Grant,
}

#[cfg(test)]
mod tests;
