//! Initiators: who may log in to which target, which LUNs they see there, and what they have to prove.
//!
//! Secrets come here sealed, as those of hosts do: what is written to the metadata can be read by whoever has the cluster's sealing key,
//! and by nobody else.

use super::host::Secret;
use super::lun::no_lun;
use super::subsystem::{put, unchanged};
use super::target::{all_targets, change_target, check_iscsi_name, find_target};
use super::unreadable::{Listed, What, named, whatever};
use super::{AdminError, Result, get, names_under, put_if, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, IscsiAccess, IscsiInitiator, IscsiLun, IscsiTarget};

/// Initiators of a cluster, at most.
pub const MAX_INITIATORS: usize = 4096;
/// Initiators that one target names, at most.
pub const MAX_TARGET_INITIATORS: usize = 256;
/// Numbers of LUNs in all lists of one target, at most: its record stays far below what the metadata takes.
pub const MAX_MASKED: usize = 16_384;
/// What records of initiators are.
const WHAT: What = What {
    name: "initiator",
    ends_by: "initiator remove",
    flag: " --force",
};
/// The longest name for CHAP.
pub const MAX_CHAP_USER_BYTES: usize = 255;

/// What each secret of an initiator is sealed for: its field in the record.
pub mod chap_field {
    /// The initiator's secret.
    pub const INITIATOR: &str = "chap";
    /// The targets' secret.
    pub const TARGET: &str = "chap_target";
}

/// The name that an initiator gives for CHAP, or that targets give it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChapUser {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is this one.
    Named(String),
    /// It is the initiator's iSCSI name, or that of the target that is asked.
    Own,
}

/// What is set of what an initiator has to prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitiatorKeys {
    /// The name that it gives.
    pub user: ChapUser,
    /// The name that targets give it.
    pub target_user: ChapUser,
    /// What it proves to have.
    pub chap: Secret,
    /// What targets prove to have.
    pub chap_target: Secret,
    /// Both secrets as they were, sealed, when it was seen that what is set is not the same as what stays: where they are others by now,
    /// nothing is set.
    pub compared: Option<(Option<String>, Option<String>)>,
}

impl InitiatorKeys {
    fn set(&self, initiator: &mut IscsiInitiator) -> Result<()> {
        if let Some((chap, chap_target)) = &self.compared
            && (*chap != initiator.chap || *chap_target != initiator.chap_target)
        {
            return Err(AdminError::Changed);
        }
        self.chap.set(&mut initiator.chap);
        self.chap_target.set(&mut initiator.chap_target);
        match &self.user {
            ChapUser::Keep => {}
            ChapUser::Named(user) => {
                check_user(user)?;
                initiator.chap_user = Some(user.clone()).filter(|user| *user != initiator.name);
            }
            ChapUser::Own => initiator.chap_user = None,
        }
        match &self.target_user {
            ChapUser::Keep => {}
            ChapUser::Named(user) => {
                check_user(user)?;
                initiator.chap_target_user = Some(user.clone());
            }
            ChapUser::Own => initiator.chap_target_user = None,
        }
        // A target answers an initiator's challenge in the course of the initiator's own proof (RFC 7143, 12.1.3).
        if initiator.chap_target.is_some() && initiator.chap.is_none() {
            return Err(AdminError::BadSetting {
                what: "initiator",
                name: initiator.name.clone(),
                why: "a secret of the targets without one of the initiator: the initiator has to prove itself first; give it a secret as \
                      well"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

/// What is given as a name for CHAP has to be typed on the initiator.
fn check_user(user: &str) -> Result<()> {
    let bad = |why: String| AdminError::BadName {
        what: "CHAP user",
        name: user.to_owned(),
        why,
    };
    if user.is_empty() {
        let why = format!(
            "it is empty; a name has 1 to {MAX_CHAP_USER_BYTES} characters (without one of its own it is the iSCSI name)"
        );
        return Err(bad(why));
    }
    if user.len() > MAX_CHAP_USER_BYTES {
        let why = format!("it has {} bytes, more than {MAX_CHAP_USER_BYTES}", user.len());
        return Err(bad(why));
    }
    match user.chars().find(|c| !c.is_ascii_graphic()) {
        None => Ok(()),
        Some(c) => Err(bad(format!(
            "it contains {c:?}; printable characters of ASCII are allowed, and no space"
        ))),
    }
}

/// All initiators by name.
///
/// # Errors
/// The metadata is away.
pub fn initiators(meta: &dyn Transact) -> Result<Listed<IscsiInitiator>> {
    Listed::read(meta, WHAT, &map::iscsi_initiators_prefix())
}

/// An initiator by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn initiator(meta: &dyn Transact, name: &str) -> Result<IscsiInitiator> {
    find_initiator(meta, name).map(|(found, _)| found)
}

fn find_initiator(meta: &dyn Transact, name: &str) -> Result<(IscsiInitiator, u64)> {
    match named(meta, WHAT, name, &map::iscsi_initiator_key(&canonical(name)))? {
        Some(found) => Ok(found),
        None => Err(none_such(meta, name)?),
    }
}

/// A name that is none is none that is known: its capitals are all that is looked after.
fn canonical(name: &str) -> String {
    check_iscsi_name("initiator", name).unwrap_or_else(|_| name.to_owned())
}

fn none_such(meta: &dyn Transact, name: &str) -> Result<AdminError> {
    Ok(AdminError::NoSuch {
        what: "initiator",
        name: name.to_owned(),
        there: names_under(meta, &map::iscsi_initiators_prefix())?,
    })
}

/// An initiator that nothing is known of yet, with nothing to prove.
fn unknown(meta: &dyn Transact, name: &str) -> Result<IscsiInitiator> {
    if names_under(meta, &map::iscsi_initiators_prefix())?.len() >= MAX_INITIATORS {
        return Err(AdminError::Full {
            what: "cluster",
            name: super::cluster(meta)?.id.to_string(),
            of: "initiators",
            most: MAX_INITIATORS,
        });
    }
    Ok(IscsiInitiator {
        name: name.to_owned(),
        chap_user: None,
        chap_target_user: None,
        chap: None,
        chap_target: None,
    })
}

/// Makes an initiator known, with nothing to prove. It may log in nowhere until a target allows it.
///
/// # Errors
/// No iSCSI name, one that is known already; too many; the metadata is away or refuses.
pub fn add_initiator(meta: &dyn Transact, name: &str) -> Result<IscsiInitiator> {
    let name = check_iscsi_name("initiator", name)?;
    let made = unknown(meta, &name)?;
    if put_if(meta, &map::iscsi_initiator_key(&name), 0, &made)? {
        return Ok(made);
    }
    Err(AdminError::Exists {
        what: "initiator",
        name,
    })
}

/// Says what an initiator has to prove; one that is not known yet is known by that. Sessions that it has by another secret are cut off.
///
/// # Errors
/// No iSCSI name; a secret of the targets without one of the initiator; others have changed the secrets since they were compared; the metadata
/// is away or refuses.
pub fn set_initiator_keys(meta: &dyn Transact, name: &str, keys: &InitiatorKeys) -> Result<IscsiInitiator> {
    let name = check_iscsi_name("initiator", name)?;
    let key = map::iscsi_initiator_key(&name);
    for _ in tries(meta) {
        let (old, revision) = match named::<IscsiInitiator>(meta, WHAT, &name, &key)? {
            Some((old, revision)) => (old, revision),
            None => (unknown(meta, &name)?, 0),
        };
        let mut new = old.clone();
        keys.set(&mut new)?;
        if (new == old && revision > 0) || put_if(meta, &key, revision, &new)? {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Seals the secrets of an initiator anew: `seal` is given the field and the secret as it is sealed, and returns it sealed anew. `None`: the
/// initiator is gone. Its secrets stay what they are, whoever changes them meanwhile.
///
/// # Errors
/// What `seal` says; or the metadata is away or refuses.
pub fn reseal_initiator<E: From<AdminError>>(
    meta: &dyn Transact,
    name: &str,
    mut seal: impl FnMut(&'static str, &str) -> std::result::Result<String, E>,
) -> std::result::Result<Option<IscsiInitiator>, E> {
    let key = map::iscsi_initiator_key(name);
    for _ in tries(meta) {
        let Some((old, revision)) = get::<IscsiInitiator>(meta, &key)? else {
            return Ok(None);
        };
        let mut new = old.clone();
        for (field, secret) in [
            (chap_field::INITIATOR, &mut new.chap),
            (chap_field::TARGET, &mut new.chap_target),
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

/// Which LUNs an initiator is to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All, those that come later too.
    All,
    /// These, and no others.
    These(Vec<u16>),
    /// This one beside those that it sees already.
    Also(u16),
    /// The same, if its number is still this very disk's: not where others have given it to another one since it was looked at.
    Disk(IscsiLun),
}

/// Lets an initiator log in to a target, and see these LUNs there. One that is not known yet is known by that, with nothing to prove.
///
/// # Errors
/// No iSCSI name, no such target or LUN, or it is another disk by now; too many; the metadata is away or refuses.
pub fn allow_initiator(meta: &dyn Transact, target: &str, name: &str, mask: &Mask) -> Result<IscsiTarget> {
    let name = check_iscsi_name("initiator", name)?;
    let key = map::iscsi_target_key(target);
    let initiator_key = map::iscsi_initiator_key(&name);
    for _ in tries(meta) {
        let known = named::<IscsiInitiator>(meta, WHAT, &name, &initiator_key)?;
        let (old, revision) = find_target(meta, target)?;
        let mut found = old.clone();
        admit(&mut found, &name, mask)?;
        let mut call = Call {
            compares: vec![
                unchanged(&initiator_key, known.as_ref().map_or(0, |(_, revision)| *revision)),
                unchanged(&key, revision),
            ],
            then: Vec::new(),
            otherwise: Vec::new(),
        };
        // Written again where it is known: who removes it meanwhile, because nothing lets it in, looks again.
        if known.is_none() || found != old {
            let initiator = match known {
                Some((known, _)) => known,
                None => unknown(meta, &name)?,
            };
            call.then.push(put(initiator_key.clone(), &initiator));
        }
        if found != old {
            call.then.push(put(key.clone(), &found));
        }
        if call.then.is_empty() || meta.txn(&call)?.succeeded {
            return Ok(found);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The record's part of it.
fn admit(target: &mut IscsiTarget, name: &str, mask: &Mask) -> Result<()> {
    let before = target.access(name).map(|access| access.luns.clone());
    if let Mask::Disk(lun) = mask
        && target.lun(lun.number).is_some_and(|known| known.uuid != lun.uuid)
    {
        return Err(AdminError::Changed);
    }
    let luns = match (mask, before) {
        (Mask::All, _) | (Mask::Also(_) | Mask::Disk(_), Some(None)) => None,
        // It sees all by being anybody.
        (Mask::Also(_) | Mask::Disk(_), None) if target.any_initiator => None,
        (Mask::These(luns), _) => Some(luns.clone()),
        (Mask::Also(lun) | Mask::Disk(IscsiLun { number: lun, .. }), before) => {
            let mut luns = before.flatten().unwrap_or_default();
            luns.push(*lun);
            Some(luns)
        }
    };
    let luns = luns.map(|mut luns| {
        luns.sort_unstable();
        luns.dedup();
        luns
    });
    let missing = luns.iter().flatten().find(|number| target.lun(**number).is_none());
    if let Some(number) = missing {
        return Err(no_lun(target, *number));
    }
    let full = |of: &'static str, most: usize| AdminError::Full {
        what: "target",
        name: target.name.clone(),
        of,
        most,
    };
    let others = target.initiators.iter().filter(|access| access.initiator != name);
    let (named, masked) = others.fold((0, 0), |(named, masked), access| {
        (named + 1, masked + access.luns.as_ref().map_or(0, Vec::len))
    });
    if named >= MAX_TARGET_INITIATORS {
        return Err(full("initiators", MAX_TARGET_INITIATORS));
    }
    if masked + luns.as_ref().map_or(0, Vec::len) > MAX_MASKED {
        return Err(full("numbers of LUNs in the lists of its initiators", MAX_MASKED));
    }
    target.initiators.retain(|access| access.initiator != name);
    target.initiators.push(IscsiAccess {
        initiator: name.to_owned(),
        luns,
    });
    target.initiators.sort_by(|a, b| a.initiator.cmp(&b.initiator));
    Ok(())
}

/// An initiator sees a disk no more; one that sees no other then may log in to the target no more, or, where any may, sees nothing there. One
/// that saw all sees all others that are there now.
///
/// # Errors
/// No such target or LUN, or others have given its number to another disk since it was looked at; the initiator is not allowed there; the
/// metadata is away or refuses.
pub fn hide_disk(meta: &dyn Transact, target: &str, name: &str, lun: &IscsiLun) -> Result<IscsiTarget> {
    let canonical = check_iscsi_name("initiator", name)?;
    let number = lun.number;
    change_target(meta, target, |found| {
        match found.lun(number) {
            None => return Err(no_lun(found, number)),
            Some(known) if known.uuid != lun.uuid => return Err(AdminError::Changed),
            Some(_) => {}
        }
        let Some(at) = found.initiators.iter().position(|known| known.initiator == canonical) else {
            return Err(not_allowed(found, &canonical));
        };
        let all = || found.luns.iter().map(|lun| lun.number).collect();
        let mut seen: Vec<u16> = found.initiators[at].luns.clone().unwrap_or_else(all);
        seen.retain(|known| *known != number);
        // Where any initiator may log in, one that is not named sees all: it stays named, and sees none.
        if seen.is_empty() && !found.any_initiator {
            found.initiators.remove(at);
        } else {
            found.initiators[at].luns = Some(seen);
        }
        Ok(())
    })
}

fn not_allowed(target: &IscsiTarget, initiator: &str) -> AdminError {
    AdminError::InitiatorNotAllowed {
        initiator: initiator.to_owned(),
        target: target.name.clone(),
        allowed: target.initiators.iter().map(|known| known.initiator.clone()).collect(),
        any_initiator: target.any_initiator,
    }
}

/// An initiator may log in to a target no more; if it is logged in it is cut off.
///
/// # Errors
/// No such target, or the initiator is not allowed there; the metadata is away or refuses.
pub fn deny_initiator(meta: &dyn Transact, target: &str, name: &str) -> Result<IscsiTarget> {
    let canonical = check_iscsi_name("initiator", name)?;
    change_target(meta, target, |found| {
        let Some(at) = found.initiators.iter().position(|known| known.initiator == canonical) else {
            return Err(not_allowed(found, &canonical));
        };
        found.initiators.remove(at);
        Ok(())
    })
}

/// Forgets an initiator and its secrets; `force`: and denies it wherever it is allowed. `None`: nobody could read what was known of it.
///
/// # Errors
/// No such initiator, or it is allowed somewhere, or its record cannot be read (and `force` is not given); a target whose record cannot be
/// read may allow it; the metadata is away or refuses.
pub fn remove_initiator(meta: &dyn Transact, name: &str, force: bool) -> Result<Option<IscsiInitiator>> {
    let canonical = canonical(name);
    let key = map::iscsi_initiator_key(&canonical);
    for _ in tries(meta) {
        let Some((found, revision)) = whatever::<IscsiInitiator>(meta, WHAT, &canonical, &key)? else {
            return Err(none_such(meta, name)?);
        };
        let found = match found {
            Err(AdminError::Unreadable { .. }) if force => None,
            found => Some(found?),
        };
        let targets = all_targets(meta)?;
        targets.none_may_say("allow", &canonical)?;
        let allowed: Vec<String> = targets
            .readable
            .into_iter()
            .filter(|target| target.access(&canonical).is_some())
            .map(|target| target.name)
            .collect();
        if !allowed.is_empty() && !force {
            return Err(AdminError::InitiatorAllowed {
                initiator: canonical,
                targets: allowed,
            });
        }
        // First nobody lets it in any more, then its secrets go: never is an initiator allowed that has lost its secret, for it would have
        // nothing to prove.
        for target in &allowed {
            match deny_initiator(meta, target, &canonical) {
                Ok(_) | Err(AdminError::InitiatorNotAllowed { .. } | AdminError::NoSuch { .. }) => {}
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
