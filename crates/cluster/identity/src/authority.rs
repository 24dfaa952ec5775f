//! The cluster's certificate authority: a folder on one machine.
//!
//! ```text
//! DIR/            0700
//!   ca-key.pem    0600  the key that signs; two while the authority is exchanged, the newest first
//!   ca.pem              the roots in the same order, each behind a line that says from when on it signs
//!   trust               the signed list that everybody gets (`trust.rs`)
//!   clients             a line for each client's name, what it may; for ever
//!   issued              a line for each certificate that was made: a certificate that is not in here was never given out
//!   revoked             a line for each certificate that was revoked
//!   tokens              a line for each token that is open, with a hash of its secret
//!   audit               a line for each use of the keys, chained by hashes (`authority/log.rs`); `audit.head` names the last one
//!   lock                held while any of these is changed
//! ```
//!
//! Every operation takes the lock, reads what is there, and writes: the server and the commands may work on one folder at a
//! time. What is written first never counts until the file that refers to it is there: keys before roots, the log before a
//! certificate leaves, the token's end before its certificate is made.
//!
//! # Exchange of the authority
//! [`Authority::rotate`] makes a second root, and a list with both that the first one signs too: so everybody learns of it.
//! The new one begins to sign only when everybody had the time to get that list; the authority's own server shows a
//! certificate by the old one to the end, which is trusted by who has not. From then on certificates go over to it as
//! they are renewed, and [`Authority::finish`] takes the old root off the list, and its key off the disk, when nobody is
//! left who needs it.

mod clients;
mod ledger;
mod log;
mod revocation;
mod roots;
mod signing;

pub use clients::{CLIENT_LIFE, ClientChange, ClientTerms, GrantedClient};
pub use ledger::{Issued, Revocation, Revoked};
pub use log::{Actor, AuthorityLog};

use crate::certificate::{Facts, authority_hash};
use crate::clock::{Clock, UnixSeconds};
use crate::error::IdentityError;
use crate::files::{self, Lock, MAX_FILE_BYTES, Privacy};
use crate::folder::{Identity, PendingKey};
use crate::key::PrivateKey;
use crate::live::Live;
use crate::name::{Name, Role};
use crate::pem;
use crate::token::{AuthorityHash, BadToken, TOKEN_LIFE, Token};
use crate::trust::Trust;
use amita_audit::{Outcome, Proof};
use amita_types::ClusterId;
use ledger::{Ledger, OpenToken};
use rcgen::PublicKeyData;
use roots::{Root, Roots};
use rustls::pki_types::CertificateDer;
use signing::public_key;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const TRUST: &str = "trust";

/// How long a certificate is valid; it is renewed in the middle of that.
pub const LEAF_LIFE: Duration = Duration::from_secs(7 * DAY_S);
/// No certificate is valid for longer than that.
const MAX_LEAF_LIFE: Duration = Duration::from_secs(397 * DAY_S);
/// The revocation list names the time of the next one; nobody here holds it against a list that it is late, since
/// certificates end soon by themselves.
const LIST_LIFE: Duration = Duration::from_secs(30 * DAY_S);
/// A certificate's entry is kept so long after its end: clocks differ.
const MEMORY: Duration = Duration::from_secs(30 * DAY_S);
const DAY_S: u64 = 24 * 3600;
/// A certificate is valid from a seventh of its life before it was made on, for clocks that are behind: 24 hours with the
/// usual life.
pub(crate) const BACKDATED_PART: u32 = 7;
/// A subject's common name may have so many characters (RFC 5280, appendix A.1); who has a longer name has none.
const MAX_COMMON_NAME: usize = 64;
/// The most tokens that are open at a time.
const MAX_TOKENS: usize = 1000;

/// What somebody gets who was given a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The certificate as PEM, then those between it and the root.
    pub certificate: String,
    /// The authority's signed list.
    pub trust: String,
}

/// Where an exchange of the authority stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The new authority.
    pub to: AuthorityHash,
    /// From when on it signs.
    pub signs_from: UnixSeconds,
    /// Whose newest certificate is still by the old one, and until when.
    pub waiting: Vec<Issued>,
}

/// The cluster's certificate authority.
#[derive(Clone, Debug)]
pub struct Authority {
    folder: PathBuf,
    cluster: ClusterId,
    clock: Clock,
    leaf_life: Duration,
    /// Who uses it, where nobody else is said to.
    actor: Actor,
}

/// What is in the folder, while it is locked.
struct State {
    roots: Roots,
    ledger: Ledger,
    /// Of the list that everybody got last.
    number: u64,
    lock: Lock,
}

impl Authority {
    /// Makes a new one for a cluster.
    ///
    /// # Errors
    /// There is one in the folder already; the folder cannot be written.
    pub fn create(folder: &Path, cluster: ClusterId, clock: Clock) -> Result<Authority, IdentityError> {
        files::make_folder(folder)?;
        let lock = files::lock(folder)?;
        if let Some(path) = Roots::is_there(folder) {
            return Err(IdentityError::Exists { path });
        }
        let authority = Authority {
            folder: folder.to_owned(),
            cluster,
            clock,
            leaf_life: LEAF_LIFE,
            actor: Actor::here(),
        };
        let now = authority.clock.now();
        let first = Root::generate(cluster, 1, now, now)?;
        let mut state = State {
            roots: Roots::new(vec![first]),
            ledger: Ledger::default(),
            number: 0,
            lock,
        };
        // The roots' file is what makes the folder an authority: it comes last.
        state.roots.write_keys(folder)?;
        authority.publish(&mut state)?;
        state.roots.write(folder)?;
        authority.tell(&state, &authority.actor, "ca.create", &cluster.to_string(), "")?;
        Ok(authority)
    }

    /// Says in the log what was done.
    fn tell(&self, state: &State, actor: &Actor, action: &str, object: &str, text: &str) -> Result<(), IdentityError> {
        let draft = actor.draft(action, object, Outcome::Done).saying(text);
        log::append(&self.folder, draft, &state.lock)
    }

    /// Says in the log what somebody was refused.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn tell_refused(&self, actor: &Actor, action: &str, object: &str, why: &str) -> Result<(), IdentityError> {
        let lock = files::lock(&self.folder)?;
        let draft = actor.draft(action, object, Outcome::Refused).saying(why);
        log::append(&self.folder, draft, &lock)
    }

    /// The log of all uses of the authority's keys.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn log(&self) -> Result<AuthorityLog, IdentityError> {
        let _lock = files::lock(&self.folder)?;
        log::read(&self.folder)
    }

    /// The one in a folder.
    ///
    /// # Errors
    /// There is none, or others could have touched it, or its files do not belong together.
    pub fn open(folder: &Path, clock: Clock) -> Result<Authority, IdentityError> {
        if !files::check_folder(folder)? {
            return Err(IdentityError::NoAuthority {
                path: folder.to_owned(),
            });
        }
        let roots = Roots::read(folder)?;
        let trust = read_trust(folder, &roots)?;
        let cluster = trust
            .cluster()
            .ok_or_else(|| IdentityError::content(&folder.join(TRUST), "it names no cluster"))?;
        Ok(Authority {
            folder: folder.to_owned(),
            cluster,
            clock,
            leaf_life: LEAF_LIFE,
            actor: Actor::here(),
        })
    }

    /// Certificates are valid for so long.
    ///
    /// # Errors
    /// Longer than 397 days, or shorter than a minute.
    pub fn with_leaf_life(mut self, life: Duration) -> Result<Authority, IdentityError> {
        if life > MAX_LEAF_LIFE || life < Duration::from_secs(60) {
            return Err(IdentityError::Request(format!(
                "certificates may be valid for a minute to 397 days, not for {} s",
                life.as_secs()
            )));
        }
        self.leaf_life = life;
        Ok(self)
    }

    /// The cluster that it is of.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn state(&self) -> Result<State, IdentityError> {
        let lock = files::lock(&self.folder)?;
        let roots = Roots::read(&self.folder)?;
        let trust = read_trust(&self.folder, &roots)?;
        let is_over = roots
            .old()
            .is_some_and(|old| !trust.roots().contains(old.certificate()));
        let mut state = State {
            roots,
            ledger: Ledger::read(&self.folder)?,
            number: trust.number().unwrap_or(0),
            lock,
        };
        if is_over {
            self.forget_old(&mut state, "it had ended half-way")?;
        }
        Ok(state)
    }

    /// The last step of an exchange, when everybody is told that the old root is none any more: whoever was given that list refuses
    /// what it signs.
    fn forget_old(&self, state: &mut State, told: &str) -> Result<(), IdentityError> {
        state.roots.drop_old();
        state.roots.write(&self.folder)?;
        state.roots.write_keys(&self.folder)?;
        let to = state.roots.newest().hash()?;
        self.tell(state, &self.actor, "ca.finish", &to.to_string(), told)
    }

    /// The list that everybody gets.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn trust(&self) -> Result<String, IdentityError> {
        let path = self.folder.join(TRUST);
        let text = files::read(&path, Privacy::Public, MAX_FILE_BYTES)?;
        let text =
            text.ok_or_else(|| IdentityError::content(&path, "it is gone: put it back from a copy of the folder"))?;
        Ok(text.to_string())
    }

    /// The number of the list that everybody gets.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn number(&self) -> Result<u64, IdentityError> {
        Ok(read_trust(&self.folder, &Roots::read(&self.folder)?)?
            .number()
            .unwrap_or(0))
    }

    /// What the authority is known by: while it is exchanged by the old one, which everybody trusts.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash(&self) -> Result<AuthorityHash, IdentityError> {
        Roots::read(&self.folder)?.oldest().hash()
    }

    /// Makes a certificate for whoever made this signing request (PEM), under this name. What the request says of a name is
    /// not looked at.
    ///
    /// # Errors
    /// The request is none, or not signed by its own key; the name is of another cluster, or nobody's to have.
    pub fn issue(&self, request: &str, name: &Name) -> Result<Answer, IdentityError> {
        self.may_have(name)?;
        let key = public_key(request)?;
        self.answer(&mut self.state()?, &key, name, ("cert.issue", &self.actor))
    }

    /// Makes a new certificate for who has shown this one in a handshake that the authority's server has checked.
    ///
    /// # Errors
    /// It was revoked meanwhile, or the request is none.
    pub fn renew(&self, shown: &CertificateDer<'_>, request: &str) -> Result<Answer, IdentityError> {
        self.renew_from(shown, request, None)
    }

    pub(crate) fn renew_from(
        &self,
        shown: &CertificateDer<'_>,
        request: &str,
        address: Option<String>,
    ) -> Result<Answer, IdentityError> {
        let refused = |why| IdentityError::Refused {
            whose: "the certificate that was shown".to_owned(),
            why,
        };
        let facts = Facts::of(shown).map_err(refused)?;
        self.may_have(&facts.name)?;
        let key = public_key(request)?;
        let mut state = self.state()?;
        let not_renewed = |why: &str| IdentityError::NotRenewed {
            name: facts.name.clone(),
            why: why.to_owned(),
        };
        if state.ledger.is_revoked(&facts.serial) {
            return Err(not_renewed("its certificate was revoked"));
        }
        if !state.ledger.issued.iter().any(|issued| issued.serial == facts.serial) {
            return Err(not_renewed("its certificate is not in this authority's log"));
        }
        if let Some(until) = state.ledger.full_until(&facts.name, self.clock.now()) {
            return Err(not_renewed(&format!(
                "so many certificates of that name were made already that somebody else must be renewing it: look into the \
                 authority's log, and revoke it. It is renewed again from {until} on"
            )));
        }
        let (name, role) = (facts.name.to_string(), facts.name.role().text());
        let actor = Actor::reached(&name, role, Proof::Certificate, address);
        self.answer(&mut state, &key, &facts.name, ("cert.renew", &actor))
    }

    fn may_have(&self, name: &Name) -> Result<(), IdentityError> {
        if name.cluster() != self.cluster {
            return Err(IdentityError::OtherCluster {
                name: name.clone(),
                cluster: self.cluster,
            });
        }
        if name.role() == Role::Authority {
            return Err(IdentityError::ReservedRole(name.role()));
        }
        Ok(())
    }

    fn answer(
        &self,
        state: &mut State,
        key: &impl PublicKeyData,
        name: &Name,
        (action, actor): (&str, &Actor),
    ) -> Result<Answer, IdentityError> {
        let (certificate, serial) = self.leaf(&mut state.ledger, key, name, state.roots.signer(self.clock.now()))?;
        // Before anybody gets it.
        self.tell(
            state,
            actor,
            action,
            &name.to_string(),
            &format!("certificate {serial}"),
        )?;
        Ok(Answer {
            certificate: pem::encode(pem::CERTIFICATE, &certificate).to_string(),
            trust: self.trust()?,
        })
    }

    /// Makes a key and a certificate in a folder of this machine.
    ///
    /// # Errors
    /// There is an identity in it already; the name is none of this cluster's.
    pub fn make_identity(&self, folder: &Path, name: &Name) -> Result<Identity, IdentityError> {
        Identity::check_absent(folder)?;
        let pending = PendingKey::make(folder)?;
        let answer = self.issue(pending.request(), name)?;
        pending.install(&answer.certificate, &answer.trust, Some(self.hash()?), self.clock.now())
    }

    /// Renews the identity in a folder of this machine.
    ///
    /// # Errors
    /// It was revoked, or is not by this authority.
    pub fn renew_identity(&self, folder: &Path) -> Result<Identity, IdentityError> {
        let now = self.clock.now();
        let current = Identity::open(folder, now)?;
        let pending = PendingKey::make(folder)?;
        let answer = self.renew(&current.chain()[0], pending.request())?;
        pending.install(&answer.certificate, &answer.trust, None, now)
    }

    /// The identity that the authority's own server shows, with a key that lies in memory only.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn server(&self) -> Result<Arc<Live>, IdentityError> {
        let identity = self.server_identity()?;
        Ok(Live::new(None, identity, self.clock.clone()))
    }

    pub(crate) fn server_identity(&self) -> Result<Identity, IdentityError> {
        let mut state = self.state()?;
        let name = Name::new(self.cluster, Role::Authority, "server")?;
        let key = PrivateKey::generate()?;
        let (leaf, serial) = self.leaf(&mut state.ledger, &*key.pair()?, &name, state.roots.oldest())?;
        let told = format!("certificate {serial}");
        self.tell(&state, &self.actor, "cert.issue", &name.to_string(), &told)?;
        let trust = Trust::signed(&self.trust()?, &state.roots.certificates())?;
        let mut chain = vec![leaf];
        // Who comes with a token knows the root by its hash only: it is shown.
        chain.push(state.roots.oldest().certificate().clone());
        Identity::of(&key, chain, Arc::new(trust), &self.folder)
    }

    /// A token with which one machine can get a certificate under this name, once and soon.
    ///
    /// # Errors
    /// The name is of another cluster, or nobody's to have.
    pub fn token(&self, name: &Name) -> Result<Token, IdentityError> {
        self.may_have(name)?;
        let mut state = self.state()?;
        let now = self.clock.now();
        state.ledger.tokens.retain(|open| open.until > now);
        if state.ledger.tokens.len() >= MAX_TOKENS {
            return Err(IdentityError::Request(format!(
                "{MAX_TOKENS} tokens are open: wait until some have ended, 15 minutes after they were made"
            )));
        }
        let token = Token::generate(state.roots.oldest().hash()?);
        state.ledger.tokens.push(OpenToken {
            id: token.id(),
            kept: token.kept(),
            until: now.after(TOKEN_LIFE),
            name: name.clone(),
        });
        state.ledger.write_tokens(&self.folder)?;
        let told = format!("token {}", token.id());
        self.tell(&state, &self.actor, "token.create", &name.to_string(), &told)?;
        Ok(token)
    }

    /// Gives a certificate for a token, which is used up by that.
    ///
    /// # Errors
    /// The token is not taken; the request is none (then the token stays good).
    pub fn redeem(&self, token: &Token, request: &str) -> Result<Answer, IdentityError> {
        self.redeem_from(token, request, None)
    }

    pub(crate) fn redeem_from(
        &self,
        token: &Token,
        request: &str,
        address: Option<String>,
    ) -> Result<Answer, IdentityError> {
        let now = self.clock.now();
        // Who has no token has nothing parsed, and takes no lock that others wait for.
        if !ledger::is_open(&self.folder, token, now)? {
            return Err(BadToken::NotTaken.into());
        }
        let key = public_key(request)?;
        let mut state = self.state()?;
        let found = state.ledger.tokens.iter().position(|open| open.id == token.id());
        let open = match found {
            Some(at) if token.is(&state.ledger.tokens[at].kept) => state.ledger.tokens.remove(at),
            _ => return Err(BadToken::NotTaken.into()),
        };
        if open.until <= now {
            return Err(BadToken::NotTaken.into());
        }
        // It has ended before there is a certificate: a crash in between costs a token.
        state.ledger.tokens.retain(|open| open.until > now);
        state.ledger.write_tokens(&self.folder)?;
        let name = format!("holder of token {}", token.id());
        let actor = Actor::reached(&name, open.name.role().text(), Proof::Token, address);
        self.answer(&mut state, &key, &open.name, ("cert.issue", &actor))
    }

    /// All certificates that were made and have not ended long ago.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn issued(&self) -> Result<Vec<Issued>, IdentityError> {
        Ok(self.state()?.ledger.issued)
    }

    /// All certificates that were revoked and have not ended long ago.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn revoked(&self) -> Result<Vec<Revoked>, IdentityError> {
        Ok(self.state()?.ledger.revoked)
    }

    /// Begins to exchange the authority. The new one signs from `lead` on from now: everybody must have got the new list by
    /// then.
    ///
    /// # Errors
    /// An exchange is under way already.
    pub fn rotate(&self, lead: Duration) -> Result<Rotation, IdentityError> {
        let mut state = self.state()?;
        if state.roots.old().is_some() {
            return Err(IdentityError::Rotation(
                "the authority is being exchanged already: `amita ca rotate --finish` ends that".to_owned(),
            ));
        }
        let now = self.clock.now();
        let generation = state.roots.newest().generation()? + 1;
        let new = Root::generate(self.cluster, generation, now, now.after(lead))?;
        state.roots.add(new);
        // Nobody is given a certificate by a root that is not on the list yet.
        state.roots.write_keys(&self.folder)?;
        self.publish(&mut state)?;
        state.roots.write(&self.folder)?;
        let hash = state.roots.newest().hash()?.to_string();
        self.tell(&state, &self.actor, "ca.rotate", &hash, "")?;
        self.rotation_of(&state)?
            .ok_or_else(|| IdentityError::Rotation("the exchange has not begun".to_owned()))
    }

    /// Where an exchange stands; none: there is none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn rotation(&self) -> Result<Option<Rotation>, IdentityError> {
        self.rotation_of(&self.state()?)
    }

    fn rotation_of(&self, state: &State) -> Result<Option<Rotation>, IdentityError> {
        let Some(old) = state.roots.old() else { return Ok(None) };
        let newest = state.roots.newest();
        Ok(Some(Rotation {
            to: newest.hash()?,
            signs_from: newest.signs_from,
            waiting: state.ledger.newest_by(old.hash()?, self.clock.now()),
        }))
    }

    /// Ends an exchange: the old root is trusted no more.
    ///
    /// # Errors
    /// There is none; somebody's newest certificate is still by the old one, and `force` is not set.
    pub fn finish(&self, force: bool) -> Result<Rotation, IdentityError> {
        let mut state = self.state()?;
        let Some(rotation) = self.rotation_of(&state)? else {
            return Err(IdentityError::Rotation(
                "the authority is not being exchanged: `amita ca rotate` begins that".to_owned(),
            ));
        };
        let now = self.clock.now();
        if now < rotation.signs_from {
            return Err(IdentityError::Rotation(format!(
                "the new authority signs from {} on: nobody has a certificate by it before",
                rotation.signs_from
            )));
        }
        if let (Some(first), false) = (rotation.waiting.first(), force) {
            return Err(IdentityError::Rotation(format!(
                "{} certificates by the old authority are in use and not renewed yet, {} until {} among them: they renew \
                 themselves at half of their life. Wait, renew or revoke them, or pass --force, and they have to join anew",
                rotation.waiting.len(),
                first.name,
                first.until
            )));
        }
        // Who was away meanwhile trusts the old root only: it signs its own end, and its key goes last.
        let old = state.roots.drop_old();
        self.publish_by(&mut state, old.as_ref())?;
        let told = format!(
            "{} certificates by the old one had not been renewed",
            rotation.waiting.len()
        );
        self.forget_old(&mut state, &told)?;
        Ok(rotation)
    }
}

fn read_trust(folder: &Path, roots: &Roots) -> Result<Trust, IdentityError> {
    let path = folder.join(TRUST);
    let text = files::read(&path, Privacy::Public, MAX_FILE_BYTES)?
        .ok_or_else(|| IdentityError::content(&path, "it is gone: put it back from a copy of the folder"))?;
    Trust::signed(&text, &roots.certificates())
}

pub(crate) fn hash_of(root: &CertificateDer<'_>) -> Result<AuthorityHash, IdentityError> {
    authority_hash(root).map_err(|why| IdentityError::Refused {
        whose: "the authority's certificate".to_owned(),
        why,
    })
}
