//! By which data keys volumes are read, and what has wrapped each.

use super::super::Result;
use super::super::volume::find_volume;
use super::tenant::Owners;
use super::{read_key, record_at};
use amita_crypt::{WrappedKey, WrappingKey};
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::map::{self, KeyNumber};
use amita_types::{Generation, VolumeId};
use serde::Serialize;

/// A data key that a volume is read by, for people. What it is stands nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyStatus {
    /// Of which image: the volume's own, or one that it was cloned from, or what it was before it was reverted.
    pub image: VolumeId,
    /// Its number among those of the image.
    pub number: KeyNumber,
    /// From this generation on blocks have it.
    pub from: Generation,
    /// The volume is written with it.
    pub newest: bool,
    /// What blocks are encrypted by; none: its record is gone, or cannot be read.
    pub algorithm: Option<&'static str>,
    /// What tells it from any other key.
    pub check: Option<String>,
    /// What has wrapped it.
    pub wrapped_by: Option<String>,
    /// The tenant whose volume key that is; none: it is the cluster's.
    pub tenant: Option<String>,
    /// What is to wrap it, where that is another one: `amita volume key rewrap` has it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_be_wrapped_by: Option<String>,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
}

/// The data keys of a volume, from the oldest on; none: it is not encrypted.
///
/// # Errors
/// No such volume; the metadata is away.
pub fn volume_keys(meta: &dyn Transact, name: &str) -> Result<Vec<KeyStatus>> {
    let (volume, _) = find_volume(meta, name)?;
    let Some(ring) = &volume.keys else {
        return Ok(Vec::new());
    };
    let keys = ring.eras().iter().map(|era| map::secret_key(era.key));
    let reply = meta.txn(&Call {
        then: keys.map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    let owners = Owners::read(meta)?;
    let newest = ring.newest();
    let status = |(at, era): (usize, &map::Era)| {
        let read = match reply.value(at) {
            None => Err("it was erased".to_owned()),
            Some(found) => read_key(&found.value),
        };
        let (found, ails) = match read {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        let (other, why) = found.as_ref().map_or((None, None), |found| other_than(&owners, found));
        KeyStatus {
            image: era.key.image,
            number: era.key.number,
            from: era.from,
            newest: *era == newest,
            algorithm: found.as_ref().map(|found| found.algorithm().name()),
            check: found.as_ref().map(|found| found.check_value().to_string()),
            wrapped_by: found.as_ref().map(WrappedKey::wrapped_by),
            tenant: found.and_then(|found| found.binding().tenant.clone()),
            to_be_wrapped_by: other,
            ails: ails.or(why),
        }
    };
    Ok(ring.eras().iter().enumerate().map(status).collect())
}

/// What is to wrap it, where that is another one; or why that is not known.
fn other_than(owners: &Owners, record: &WrappedKey) -> (Option<String>, Option<String>) {
    let binding = record.binding();
    match owners.wanted(binding.key, binding.tenant.as_deref()) {
        Ok(Some(wanted)) if !wanted.is_met(record) => (Some(told(wanted.tenant.as_deref(), &wanted.by)), None),
        Ok(_) => (None, None),
        Err(why) => (None, Some(why)),
    }
}

/// For people.
fn told(tenant: Option<&str>, by: &WrappingKey) -> String {
    match tenant {
        Some(tenant) => format!("{by}, tenant {tenant}'s"),
        None => format!("{by}, the cluster's"),
    }
}

/// A data key that is not wrapped by what is to wrap it, or whose record cannot be read, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misplaced {
    /// Which.
    pub key: String,
    /// What has wrapped it.
    pub wrapped_by: String,
    /// The tenant that it is bound to; none: nobody, or nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What is to; none: `ails` says why nobody knows.
    pub to_be_wrapped_by: Option<String>,
    /// Why nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
}

/// The data keys of all volumes that are wrapped by another one than is to wrap them: of a volume that was given to another tenant, or of a tenant who was
/// given a key, until all is wrapped again. And those of which nobody knows it.
///
/// # Errors
/// The metadata is away.
pub fn misplaced_keys(meta: &dyn Transact) -> Result<Vec<Misplaced>> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix()))?;
    let owners = Owners::read(meta)?;
    let misplaced = |found: &KeyValue| {
        let record = match record_at(found) {
            Ok(record) => record,
            // Of whom it is the key that it is kept under says.
            Err(why) => {
                return Some(Misplaced {
                    key: found.key[map::all_secrets_prefix().len()..].to_owned(),
                    wrapped_by: "nobody knows what".to_owned(),
                    tenant: None,
                    to_be_wrapped_by: None,
                    ails: Some(format!("its record cannot be used: {why}")),
                });
            }
        };
        let (to_be_wrapped_by, ails) = other_than(&owners, &record);
        let bound = record.binding().tenant.as_deref();
        (to_be_wrapped_by.is_some() || ails.is_some()).then(|| Misplaced {
            key: record.binding().key.to_string(),
            wrapped_by: told(bound, &record.wrapping_key()),
            tenant: bound.map(str::to_owned),
            to_be_wrapped_by,
            ails,
        })
    };
    Ok(reply.values(0).iter().filter_map(misplaced).collect())
}
