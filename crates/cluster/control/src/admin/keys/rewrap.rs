//! Data keys are wrapped again: by another key of the cluster's, or of a tenant's, or because a volume is another one's by now.
//!
//! Each by a compare-and-set of its record: the keys stay, and with them every block. What is to wrap a key follows from whose volumes are read by it
//! ([`Owners`]), and is compared with the record.

use super::super::limit::{bad, check_tenant};
use super::super::subsystem::{put, unchanged, uses_guard};
use super::super::{AdminError, RACES, Result, cluster, tries};
use super::tenant::{Owners, Wanted, tenant_key};
use super::{KeyTrouble, knows, read_key, record_at, wrapping_key};
use amita_crypt::{Binding, WrappedKey, WrappingKey};
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::ClusterId;
use amita_types::map::{self, ENCRYPTION_SINCE, TENANT_KEYS_SINCE};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What came of wrapping data keys again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrapped {
    /// So many are wrapped by another key-encryption key than before.
    pub wrapped: usize,
    /// So many were wrapped by that one already.
    pub same: usize,
    /// By this version of Vault's key all are wrapped that did not fail, where it is Vault's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Records that stay as they are, and why.
    pub failed: Vec<String>,
    /// Tenants whose keys were not looked at where they are wrapped by the right one already, as that is not there, or not asked: why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// Who wraps data keys again.
pub trait Rewrap {
    /// What the cluster's are to be wrapped with; `now`: what they are by now, if anything was.
    ///
    /// # Errors
    /// Why there is nothing, for people.
    fn to(&self, now: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String>;

    /// What a tenant's are to be wrapped with: the one of this identifier of those that are his; none: there is one alone. `now`: what they are by now,
    /// if he has one.
    ///
    /// # Errors
    /// Why there is nothing, or which there are, for people.
    fn to_of(
        &self,
        tenant: &str,
        now: Option<&WrappingKey>,
        identifier: Option<&str>,
    ) -> std::result::Result<WrappingKey, String> {
        let _ = (now, identifier);
        Err(format!("there is no key of tenant {tenant}'s here"))
    }

    /// Is it there, for this tenant or for the cluster, and does who keeps it answer?
    ///
    /// # Errors
    /// It is not, or does not: why, for people.
    fn has(&self, tenant: Option<&str>, to: &WrappingKey) -> std::result::Result<(), KeyTrouble> {
        let _ = (tenant, to);
        Ok(())
    }

    /// Wraps a data key with it, and has seen that it opens by it.
    ///
    /// # Errors
    /// It does not open, or cannot be wrapped, or nobody answers.
    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble>;

    /// The same, bound to something else: it is another tenant's from then on, or nobody's.
    ///
    /// # Errors
    /// As [`Rewrap::rewrap`].
    fn rewrap_as(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        binding: &Binding,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        match wrapped.binding() == binding {
            true => self.rewrap(cluster, to, wrapped),
            false => Err(KeyTrouble::Key("it is not bound to anybody else here".to_owned())),
        }
    }

    /// Has seen that a data key opens by it, which is said to be wrapped with it already: a key that somebody else keeps may be another one of the same name.
    ///
    /// # Errors
    /// It does not open, or nobody answers.
    fn proves(&self, cluster: ClusterId, to: &WrappingKey, wrapped: &WrappedKey)
    -> std::result::Result<(), KeyTrouble>;

    /// What was seen to open counts as long as this is the same: of several servers at least one is left at which all of it does.
    fn proofs(&self) -> u64 {
        0
    }

    /// The version by which it wraps now, where it has versions (Vault's have), as it was heard last. It was asked for [`Rewrap::to`] before.
    fn version(&self, to: &WrappingKey) -> Option<u32> {
        let _ = to;
        None
    }

    /// Was a key that is wrapped with it wrapped by another version of it than wraps now? Of one that is newer than any there is nobody knows what it
    /// is of.
    fn is_older(&self, to: &WrappingKey, wrapped: &WrappedKey) -> bool {
        let versions = self.version(to).zip(wrapped.transit_version());
        versions.is_some_and(|(newest, version)| version != newest)
    }
}

fn refuse(why: String) -> AdminError {
    bad("cluster", "volume keys", why)
}

/// Wraps all data keys of the cluster again that are not wrapped by what is to wrap them: a tenant's by his key, all others by the cluster's, which becomes
/// what is given.
///
/// First the cluster's wrapping key is changed: from then on no transaction makes a key by the old one ([`super::NewKey::into_call`]). One that somebody else
/// keeps is written also where it stays: by an older version of it no key is made from then on. What was made before is seen by a pass behind that; there are
/// passes until one finds nothing to do.
///
/// # Errors
/// The metadata is away or refuses; nothing wraps, or a tenant's key would; who keeps what wraps does not answer; somebody else changes the wrapping key
/// meanwhile. What was done until then stays.
pub fn rewrap_keys(meta: &dyn Transact, by: &dyn Rewrap) -> Result<Rewrapped> {
    let (now, revision) = wrapping_key(meta)?;
    let to = by.to(now.as_ref()).map_err(refuse)?;
    let key = map::wrapping_key();
    let map::Cluster { id, version, .. } = cluster(meta)?;
    let is_other = now.as_ref() != Some(&to);
    knows(version, &to).map_err(refuse)?;
    if is_other {
        if version < ENCRYPTION_SINCE {
            return Err(refuse(format!(
                "the cluster's version is {version}, and has none before {ENCRYPTION_SINCE}"
            )));
        }
        // Whoever gives a tenant a key writes the record that is compared below.
        if let Some(tenant) = Owners::read(meta)?.has(&to) {
            return Err(refuse(format!(
                "{to} is the volume key of tenant {tenant}, and wraps for nobody else"
            )));
        }
        can_rewrap(meta, by, (id, &to), now.as_ref())?.map_err(refuse)?;
    }
    if is_other || to.is_kept_elsewhere() {
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &to)],
            otherwise: Vec::new(),
        };
        if !meta.txn(&call)?.succeeded {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
    }
    let (now, revision) = wrapping_key(meta)?;
    if now.as_ref() != Some(&to) {
        return Err(refuse(OTHER_REWRAP.to_owned()));
    }
    settle(meta, by, id, &Scope::All { to, revision })
}

/// Has the data keys of a tenant's volumes wrapped by a key of his own, of this identifier; none: by the one that is given as his alone. It is no other's, and
/// not the cluster's. Given again it wraps what is not wrapped by it yet.
///
/// # Errors
/// No tenant is called so; a cluster whose version does not know of it; there is none, or several; another one's is it; volumes of others are read by data
/// keys of his; none of them can be wrapped by it; the metadata is away or refuses; who keeps it does not answer. What was done until then stays.
pub fn set_tenant_key(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    tenant: &str,
    identifier: Option<&str>,
) -> Result<Rewrapped> {
    let refuse = |why: String| bad("tenant", tenant, why);
    let map::Cluster { id, version, .. } = cluster(meta)?;
    may_have_keys(tenant, version)?;
    let (now, revision) = tenant_key(meta, tenant)?;
    let to = by.to_of(tenant, now.as_ref(), identifier).map_err(refuse)?;
    knows(version, &to).map_err(refuse)?;
    let key = map::tenant_wrapping_key(tenant);
    let is_other = now.as_ref() != Some(&to);
    let must_be_written = is_other || to.is_kept_elsewhere();
    let (mut is_written, mut is_proven) = (!must_be_written, !is_other);
    for _ in 0..=RACES {
        if is_written {
            break;
        }
        let (guard, guard_revision) = uses_guard(meta)?;
        let (clusters, wrapping) = wrapping_key(meta)?;
        let clusters = match clusters {
            Some(clusters) => clusters,
            None => by.to(None).map_err(refuse)?,
        };
        let owners = Owners::read(meta)?;
        let other = match owners.has(&to) {
            _ if clusters == to => Some("the cluster's".to_owned()),
            Some(other) if other != tenant => Some(format!("that of tenant {other}")),
            _ => None,
        };
        if let Some(other) = other {
            return Err(refuse(format!(
                "{to} is {other}, and a tenant's key wraps for nobody else: give the tenant another one"
            )));
        }
        owners.is_apart(meta, tenant)?;
        if !is_proven {
            can_settle(meta, by, id, &owners, (tenant, Some(&to)))?.map_err(refuse)?;
            // Others were asked for that, which takes its time: what is compared below is read again.
            is_proven = true;
            continue;
        }
        let (guard_key, wrapping_key) = (map::counter_key("namespaces"), map::wrapping_key());
        let call = Call {
            compares: vec![
                unchanged(&key, revision),
                // Whoever makes a clone, or says whose a volume is, raises it.
                unchanged(&guard_key, guard_revision),
                unchanged(&wrapping_key, wrapping),
            ],
            then: vec![
                put(key.clone(), &to),
                put(guard_key, &(guard + 1)),
                // Whoever is about to make a data key by the cluster's, or another one the cluster's, looks again.
                put(wrapping_key, &clusters),
            ],
            otherwise: Vec::new(),
        };
        is_written = meta.txn(&call)?.succeeded;
        if !is_written && tenant_key(meta, tenant)?.1 != revision {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
    }
    if !is_written {
        let key = map::counter_key("namespaces");
        return Err(AdminError::TooManyRaces { key });
    }
    let (now, revision) = tenant_key(meta, tenant)?;
    if now.as_ref() != Some(&to) {
        return Err(refuse(OTHER_REWRAP.to_owned()));
    }
    let tenant = tenant.to_owned();
    let to = Some(to);
    settle(meta, by, id, &Scope::Tenant { tenant, to, revision })
}

/// Has the data keys of a tenant's volumes wrapped by the cluster's key again. Given again it wraps what is not yet.
///
/// # Errors
/// No tenant is called so; none of his data keys can be wrapped by the cluster's; the metadata is away or refuses; who keeps that does not answer. What was
/// done until then stays.
pub fn clear_tenant_key(meta: &dyn Transact, by: &dyn Rewrap, tenant: &str) -> Result<Rewrapped> {
    let refuse = |why: String| bad("tenant", tenant, why);
    check_tenant(tenant)?;
    let id = cluster(meta)?.id;
    let (now, revision) = tenant_key(meta, tenant)?;
    if now.is_some() {
        can_settle(meta, by, id, &Owners::read(meta)?, (tenant, None))?.map_err(refuse)?;
        let key = map::tenant_wrapping_key(tenant);
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if !meta.txn(&call)?.succeeded {
            return Err(AdminError::TooManyRaces { key });
        }
    }
    let scope = Scope::Tenant {
        tenant: tenant.to_owned(),
        to: None,
        revision: 0,
    };
    settle(meta, by, id, &scope)
}

fn may_have_keys(tenant: &str, version: u32) -> Result<()> {
    check_tenant(tenant)?;
    match version < TENANT_KEYS_SINCE {
        true => Err(bad(
            "tenant",
            tenant,
            format!(
                "the cluster's version is {version}, and tenants' volume keys need {TENANT_KEYS_SINCE}: programs of before would wrap what is the \
                 tenant's by the cluster's key (`amita cluster finalize`)"
            ),
        )),
        false => Ok(()),
    }
}

/// Of a thousand keys each would be waited for.
fn is_away(wrapped: usize, why: &str) -> String {
    format!("who keeps the key does not answer; {wrapped} were wrapped, give it again: {why}")
}

const OTHER_REWRAP: &str = "somebody else changes what data keys are wrapped with (another rewrap, or a tenant gets a key): give the command again when that \
                            is done, and see that all have the same file";

/// Does any key open by what is given? Else it is another cluster's, and would be made this one's. Those that are not tenants' say it; where there are none,
/// the line that wraps for the cluster `now`, or any of the tenants' keys: these are opened only, for nothing of a tenant's is for who keeps the cluster's.
fn can_rewrap(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    (id, to): (ClusterId, &WrappingKey),
    now: Option<&WrappingKey>,
) -> Result<std::result::Result<(), String>> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let records: Vec<_> = reply.values(0).iter().map(|found| read_key(&found.value)).collect();
    let is_tenants = |old: &WrappedKey| old.binding().tenant.is_some();
    let has_clusters = records.iter().flatten().any(|old| !is_tenants(old));
    if !has_clusters && now.is_some_and(|now| by.has(None, now).is_ok()) {
        return Ok(Ok(()));
    }
    // One that cannot be read proves nothing, and is told of where no other does.
    let records = records
        .into_iter()
        .filter(|found| found.as_ref().map_or(true, |old| is_tenants(old) != has_clusters));
    Ok(any_can(records, |old| match has_clusters {
        true => {
            let binding = Binding {
                tenant: None,
                key: old.binding().key,
            };
            by.rewrap_as(id, to, &binding, old).map(drop)
        }
        false => by.proves(id, &old.wrapping_key(), old),
    }))
}

/// The same of what is wrapped otherwise than it will be once a tenant has this key, or none.
fn can_settle(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    id: ClusterId,
    owners: &Owners,
    (tenant, to): (&str, Option<&WrappingKey>),
) -> Result<std::result::Result<(), String>> {
    let (Some(to), bound) = (to.or(owners.clusters()), to.map(|_| tenant.to_owned())) else {
        return Ok(Ok(()));
    };
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let is_his = |old: &WrappedKey| {
        let tenants = owners.tenants(old.binding().key);
        tenants.contains(&Some(tenant)) || tenants.is_empty() && old.binding().tenant.as_deref() == Some(tenant)
    };
    let records = reply.values(0).iter().filter_map(|found| match read_key(&found.value) {
        Ok(old) => is_his(&old).then_some(Ok(old)),
        Err(why) => owners.are_read_by(&found.key, tenant).then_some(Err(why)),
    });
    Ok(any_can(records, |old| {
        let binding = Binding {
            tenant: bound.clone(),
            key: old.binding().key,
        };
        by.rewrap_as(id, to, &binding, old).map(drop)
    }))
}

/// Does any of them pass, or is there none? Of what one key has wrapped that is not answered one is asked: what others have wrapped may do as well.
fn any_can(
    all: impl Iterator<Item = std::result::Result<WrappedKey, String>>,
    passes: impl Fn(&WrappedKey) -> std::result::Result<(), KeyTrouble>,
) -> std::result::Result<(), String> {
    let (mut refused, mut silent) = (None, Vec::<(WrappingKey, String)>::new());
    for one in all {
        let old = match one {
            Ok(old) if silent.iter().any(|(from, _)| *from == old.wrapping_key()) => continue,
            Ok(old) => old,
            Err(why) => {
                refused = refused.or(Some(why));
                continue;
            }
        };
        match passes(&old) {
            Ok(()) => return Ok(()),
            Err(KeyTrouble::Key(why)) => refused = refused.or(Some(why)),
            Err(KeyTrouble::Away(why)) => silent.push((old.wrapping_key(), why)),
        }
    }
    if let Some((from, why)) = silent.first() {
        let who = match from.is_kept_elsewhere() {
            true => format!("who keeps the key that is to wrap them, or {from}, which has wrapped them,"),
            false => "who keeps the key".to_owned(),
        };
        return Err(format!(
            "{who} does not answer, so nothing was changed; give it again: {why}"
        ));
    }
    refused.map_or(Ok(()), |why| {
        Err(format!(
            "none of its data keys can be wrapped anew, so nothing was changed: {why}"
        ))
    })
}

/// Which keys are looked at.
enum Scope {
    /// All. The cluster's are wrapped by this, whose record has that revision.
    All { to: WrappingKey, revision: u64 },
    /// Those of a tenant's volumes, and what is bound to him still: by this, whose record has that revision; none: he has none.
    Tenant {
        tenant: String,
        to: Option<WrappingKey>,
        revision: u64,
    },
}

impl Scope {
    /// Is all still to be wrapped so?
    fn stands(&self, meta: &dyn Transact) -> Result<bool> {
        Ok(match self {
            Scope::All { revision, .. } => wrapping_key(meta)?.1 == *revision,
            Scope::Tenant { tenant, revision, .. } => tenant_key(meta, tenant)?.1 == *revision,
        })
    }

    /// What wraps what this is about: where it does not answer nothing is done.
    fn is_about(&self, wanted: &Wanted) -> bool {
        match self {
            Scope::All { .. } => wanted.tenant.is_none(),
            // What is bound to the tenant still may be another one's volume's by now.
            Scope::Tenant { tenant, to, .. } => wanted.tenant.as_ref() == to.as_ref().map(|_| tenant),
        }
    }

    fn covers(&self, owners: &Owners, record: &WrappedKey) -> bool {
        match self {
            Scope::All { .. } => true,
            Scope::Tenant { tenant, .. } => {
                let Binding { tenant: bound, key } = record.binding();
                bound.as_ref() == Some(tenant) || owners.tenants(*key).contains(&Some(tenant))
            }
        }
    }

    /// Is a record that cannot be read one of others?
    fn is_anothers(&self, owners: &Owners, record: &str) -> bool {
        match self {
            Scope::All { .. } => false,
            Scope::Tenant { tenant, .. } => !owners.are_read_by(record, tenant),
        }
    }

    /// By what most are wrapped, to tell its version.
    fn to(&self) -> Option<&WrappingKey> {
        match self {
            Scope::All { to, .. } => Some(to),
            Scope::Tenant { to, .. } => to.as_ref(),
        }
    }
}

/// Looks at all of them until there is nothing to do.
fn settle(meta: &dyn Transact, by: &dyn Rewrap, id: ClusterId, scope: &Scope) -> Result<Rewrapped> {
    let (mut wrapped, mut proven) = (0, BTreeSet::new());
    let mut asked = Asked::default();
    for _ in tries(meta) {
        asked.silent.clear();
        let proofs = by.proofs();
        let Pass {
            mut all,
            mut is_raced,
            away,
        } = pass(meta, by, id, scope, &mut proven, &mut asked)?;
        wrapped += all.wrapped;
        if let Some(why) = away {
            return Err(refuse(is_away(wrapped, &why)));
        }
        if !scope.stands(meta)? {
            return Err(refuse(OTHER_REWRAP.to_owned()));
        }
        if by.proofs() != proofs {
            // Another server has answered since: what was wrapped by the one before has to open there.
            proven.clear();
            is_raced = true;
        }
        if all.wrapped == 0 && !is_raced {
            // What this call has wrapped is the same by now.
            all.same = all.same.saturating_sub(wrapped);
            all.wrapped = wrapped;
            all.version = scope.to().and_then(|to| by.version(to));
            let unseen = asked.tenants.values().filter_map(|asked| asked.as_ref().err());
            all.unseen = unseen.map(ToString::to_string).collect();
            return Ok(all);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::all_secrets_prefix(),
    })
}

/// What came of a look at each key.
#[derive(Default)]
struct Pass {
    all: Rewrapped,
    /// One was changed meanwhile by somebody else.
    is_raced: bool,
    /// It has ended before all were looked at, as nobody answers: why.
    away: Option<String>,
}

/// What was asked already, so that of a thousand keys each is not waited for.
#[derive(Default)]
struct Asked {
    /// For whom it was asked whether what wraps is there, and what was said.
    tenants: BTreeMap<Option<String>, std::result::Result<(), KeyTrouble>>,
    /// What has wrapped data keys, and does not answer in this pass: why.
    silent: Vec<(WrappingKey, String)>,
}

impl Asked {
    /// Who keeps what has wrapped a key, or what is to, does not answer: who of them?
    fn silent(&mut self, by: &dyn Rewrap, wanted: &Wanted, from: &WrappingKey, is_about: bool, why: String) -> Seen {
        let tenant = wanted.tenant.as_deref();
        let is_source = *from != wanted.by
            && from.is_kept_elsewhere()
            && !matches!(by.has(tenant, &wanted.by), Err(KeyTrouble::Away(_)));
        match (is_source, is_about) {
            (true, _) => {
                let why = format!("{from} has wrapped it, and is to open it: {why}");
                self.silent.push((from.clone(), why.clone()));
                Seen::Failed(why)
            }
            (false, true) => Seen::Away(why),
            (false, false) => {
                let away = KeyTrouble::Away(why.clone());
                self.tenants.insert(wanted.tenant.clone(), Err(away));
                Seen::Failed(why)
            }
        }
    }
}

/// What became of a key.
enum Seen {
    Same,
    Wrapped(Vec<u8>),
    /// Somebody else has changed it.
    Raced,
    Failed(String),
    Away(String),
}

/// Looks at each key once. `proven`: records that were seen to open, by what they are.
fn pass(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    id: ClusterId,
    scope: &Scope,
    proven: &mut BTreeSet<Vec<u8>>,
    asked: &mut Asked,
) -> Result<Pass> {
    // First the keys: what is made behind that is wrapped by what is said by then.
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let owners = Owners::read(meta)?;
    let mut pass = Pass::default();
    for found in reply.values(0) {
        let seen = match record_at(found) {
            Ok(old) if !scope.covers(&owners, &old) => continue,
            Ok(old) => look(meta, by, id, (scope, &owners), (found, &old), proven, asked)?,
            Err(_) if scope.is_anothers(&owners, &found.key) => continue,
            Err(why) => Seen::Failed(why),
        };
        match seen {
            Seen::Same => pass.all.same += 1,
            Seen::Wrapped(record) => {
                pass.all.wrapped += 1;
                proven.insert(record);
            }
            Seen::Raced => pass.is_raced = true,
            Seen::Failed(why) => pass.all.failed.push(format!("{}: {why}", found.key)),
            Seen::Away(why) => {
                pass.away = Some(why);
                break;
            }
        }
    }
    Ok(pass)
}

/// Wraps one, if it is not wrapped by what is to wrap it.
fn look(
    meta: &dyn Transact,
    by: &dyn Rewrap,
    id: ClusterId,
    (scope, owners): (&Scope, &Owners),
    (found, old): (&KeyValue, &WrappedKey),
    proven: &mut BTreeSet<Vec<u8>>,
    asked: &mut Asked,
) -> Result<Seen> {
    let Binding { tenant, key } = old.binding();
    let wanted = match owners.wanted(*key, tenant.as_deref()) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return Ok(Seen::Raced),
        Err(why) => return Ok(Seen::Failed(why)),
    };
    if let Scope::All { to, .. } = scope
        && wanted.tenant.is_none()
        && wanted.by != *to
    {
        // Another one was made the cluster's meanwhile.
        return Ok(Seen::Raced);
    }
    let is_about = scope.is_about(&wanted);
    let is_asked_for = matches!(scope, Scope::All { .. }) && is_about;
    if !is_asked_for {
        let here = asked.tenants.entry(wanted.tenant.clone());
        let here = here.or_insert_with(|| by.has(wanted.tenant.as_deref(), &wanted.by));
        match here {
            Ok(()) => {}
            // Whoever wraps something else needs it for nothing that is wrapped by it.
            Err(_) if !is_about && wanted.is_met(old) => return Ok(Seen::Same),
            Err(KeyTrouble::Away(why)) if is_about => return Ok(Seen::Away(why.clone())),
            Err(why) => return Ok(Seen::Failed(why.to_string())),
        }
    }
    let (to, from) = (&wanted.by, old.wrapping_key());
    if wanted.is_met(old) && !by.is_older(to, old) {
        // By its name alone it is not known to be the one that it was.
        if !to.is_kept_elsewhere() || !is_about || proven.contains(&found.value) {
            return Ok(Seen::Same);
        }
        return Ok(match by.proves(id, to, old) {
            Ok(()) => {
                proven.insert(found.value.clone());
                Seen::Same
            }
            Err(KeyTrouble::Key(why)) => Seen::Failed(why),
            Err(KeyTrouble::Away(why)) => asked.silent(by, &wanted, &from, is_about, why),
        });
    }
    if let Some((_, why)) = asked.silent.iter().find(|(silent, _)| *silent == from) {
        return Ok(Seen::Failed(why.clone()));
    }
    let binding = Binding {
        tenant: wanted.tenant.clone(),
        key: *key,
    };
    let is_late = |new: &WrappedKey| {
        let versions = new.transit_version().zip(by.version(to));
        versions.is_some_and(|(version, newest)| version < newest)
    };
    let new = match by.rewrap_as(id, to, &binding, old) {
        Ok(new) if is_late(&new) => {
            return Ok(Seen::Failed(
                "it was wrapped by an older version of Vault's key than there is: not all servers of Vault have the newest yet".to_owned(),
            ));
        }
        Ok(new) if wanted.is_met(&new) && new.check_value() == old.check_value() => new,
        Ok(new) => {
            return Ok(Seen::Failed(format!(
                "what came of data key {key} is another one, or wrapped by {}",
                new.wrapping_key()
            )));
        }
        Err(KeyTrouble::Key(why)) => return Ok(Seen::Failed(why)),
        Err(KeyTrouble::Away(why)) => return Ok(asked.silent(by, &wanted, &from, is_about, why)),
    };
    let text = new.to_text().into_bytes();
    let mut call = Call::put_if(found.key.clone(), found.mod_revision, text.clone());
    call.compares.extend(wanted.held);
    Ok(match meta.txn(&call)?.succeeded {
        true => Seen::Wrapped(text),
        // Its volume went meanwhile, or is another one's, or somebody else has wrapped it.
        false => Seen::Raced,
    })
}
