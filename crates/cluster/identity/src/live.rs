//! An identity that is in use: renewed, and what it trusts exchanged, while connections are made with it.

use crate::Role;
use crate::authority::BACKDATED_PART;
use crate::certificate::validity;
use crate::clock::Clock;
use crate::error::IdentityError;
use crate::folder::{self, Identity};
use crate::name::Name;
use crate::tls::{self, Expected};
use crate::trust::{Refusal, Usage};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How long a connection may outlive the certificate that it was made with, at most: so long the authority remembers those that
/// have ended.
const OUTLIVES: Duration = Duration::from_secs(30 * 24 * 3600);
/// And no more than so many times the certificate's life: who has short ones has many.
const OUTLIVES_LIVES: u32 = 256;

/// How long a connection may outlive a certificate of that life.
pub(crate) fn outlives(life: Duration) -> Duration {
    life.saturating_mul(OUTLIVES_LIVES).min(OUTLIVES)
}

/// How long a certificate was valid after it was made, by what stands in it.
fn life_of(chain: &[CertificateDer<'_>]) -> Duration {
    let validity = chain.first().and_then(|leaf| validity(leaf).ok());
    let whole = validity.map_or(Duration::ZERO, |(from, until)| until.since(from));
    whole * BACKDATED_PART / (BACKDATED_PART + 1)
}

/// An identity in use. TLS configurations that are made from it look here at each handshake, so that they stay right.
#[derive(Debug)]
pub struct Live {
    folder: Option<PathBuf>,
    clock: Clock,
    current: RwLock<Arc<Identity>>,
    generation: AtomicU64,
}

impl Live {
    /// Of a folder ([`Identity::open`]).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(folder: &Path, clock: Clock) -> Result<Arc<Live>, IdentityError> {
        let identity = Identity::open(folder, clock.now())?;
        Ok(Live::new(Some(folder.to_owned()), identity, clock))
    }

    /// Of an identity that lies in no folder.
    pub(crate) fn new(folder: Option<PathBuf>, identity: Identity, clock: Clock) -> Arc<Live> {
        Arc::new(Live {
            folder,
            clock,
            current: RwLock::new(Arc::new(identity)),
            generation: AtomicU64::new(1),
        })
    }

    /// As it is now.
    #[must_use]
    pub fn current(&self) -> Arc<Identity> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who this is. It stays while the process runs.
    #[must_use]
    pub fn name(&self) -> Name {
        self.current().name().clone()
    }

    /// The folder that it was read from.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The clock that certificates are judged by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A number that grows whenever something was exchanged. Who holds links remembers it, and when it has grown asks for
    /// each link whether its peer is still believed ([`Live::judge`]); it costs one load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// For connections that are dialled; see [`server_name`](crate::server_name) for what rustls wants as a name.
    #[must_use]
    pub fn client_config(self: &Arc<Self>, expected: Expected) -> Arc<ClientConfig> {
        tls::client_config(self, expected)
    }

    /// For connections that are accepted: from holders of these roles, who must show a certificate.
    #[must_use]
    pub fn server_config(self: &Arc<Self>, roles: &[Role]) -> Arc<ServerConfig> {
        tls::server_config(self, roles, true)
    }

    /// For connections that are accepted from holders of these roles, and from who shows no certificate.
    #[must_use]
    pub fn open_server_config(self: &Arc<Self>, roles: &[Role]) -> Arc<ServerConfig> {
        tls::server_config(self, roles, false)
    }

    /// Is the holder of this chain (the leaf first) believed now? `usage`: [`Usage::Server`] if it was dialled.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, chain: &[CertificateDer<'_>], usage: Usage) -> Result<Name, Refusal> {
        let current = self.current();
        current
            .trust()
            .judge(chain, usage, current.name().cluster(), self.clock.now())
    }

    /// Is the holder of this chain, who was believed when his connection was made, to keep it? That his certificate has ended since
    /// ends no connection for 30 days: a client that reads its certificate once may have a disk on it for weeks. After that the
    /// authority has forgotten it, and could revoke it no more. That it was revoked ends it, and that its authority was exchanged.
    ///
    /// # Errors
    /// Why not.
    pub fn judge_established(&self, chain: &[CertificateDer<'_>], usage: Usage) -> Result<Name, Refusal> {
        let current = self.current();
        let judge = |at| current.trust().judge(chain, usage, current.name().cluster(), at);
        let now = self.clock.now();
        match judge(now) {
            // What ends a certificate is looked at before what revokes it.
            Err(Refusal::Expired { since, .. }) if now.since(since) < outlives(life_of(chain)) => judge(since),
            Err(Refusal::NotYet { from, .. }) => judge(from),
            judged => judged,
        }
    }

    /// Takes a newer trust list, from wherever it comes: into the folder, and into use. `false`: it is known.
    ///
    /// # Errors
    /// It is older than one that was seen, or not by an authority that is trusted: nothing has changed.
    pub fn install_trust(&self, text: &str) -> Result<bool, IdentityError> {
        if self.current().trust().text() == Some(text) {
            return Ok(false);
        }
        let taken = match &self.folder {
            Some(folder) => folder::install_trust(folder, text)?,
            None => None,
        };
        match taken {
            None => self.reload(),
            Some(trust) => {
                let identity = self.current().trusting(trust);
                self.replace(identity);
                Ok(true)
            }
        }
    }

    /// Reads the folder again. `false`: nothing has changed.
    ///
    /// # Errors
    /// What is wrong with it; what was in use stays so.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let (read, current) = (Identity::open(folder, self.clock.now())?, self.current());
        if read.name() != current.name() {
            return Err(IdentityError::content(
                folder,
                format!(
                    "it is the identity of {} now, and this process runs as {}: start it again",
                    read.name(),
                    current.name()
                ),
            ));
        }
        if read.chain() == current.chain()
            && read.trust().roots() == current.trust().roots()
            && read.trust().text() == current.trust().text()
        {
            return Ok(false);
        }
        self.replace(read);
        Ok(true)
    }

    /// From now on, it is this one.
    pub(crate) fn replace(&self, identity: Identity) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}
