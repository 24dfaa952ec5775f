//! A pool goes: only one that nothing lies in.
//!
//! Nothing may come into it between the look and the deletion. Whoever makes or clones a volume raises the counter of volumes, which is
//! compared here, and compares the pool's record, which goes here; whoever has a snapshot policy take in all of a pool writes that record anew.
//! A volume moves into no pool, and a deleted one that is kept has a record, too.

use super::super::subsystem::{put, unchanged};
use super::super::{AdminError, Result, names_under, parse, tries};
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::map::{self, Policy, Pool, Target, Trashed, Volume};

/// Deletes a pool that nothing lies in, with its groups, its quota and its recycle time. Its number is never given again.
///
/// # Errors
/// Volumes, or deleted ones that are kept, are in it, or a snapshot policy is for it; there is none of that name; a record that may be one
/// of them cannot be read; the metadata is suspected, away or refuses.
pub fn delete_pool(meta: &dyn Transact, name: &str) -> Result<Pool> {
    let (key, counter) = (map::pool_key(name), map::counter_key("volumes"));
    for _ in tries(meta) {
        super::super::volume::believable(meta)?;
        let seen = look(meta, &key, &counter)?;
        let Some((pool, revision)) = seen.pool else {
            return Err(AdminError::NoSuch {
                what: "pool",
                name: name.to_owned(),
                there: names_under(meta, &map::pool_key(""))?,
            });
        };
        seen.users.refuse(name)?;
        let (last, counter_revision) = seen.counter;
        let mut then = vec![Op::Delete { key: key.clone() }];
        let own = [
            map::raised_key(pool.id),
            map::quota_key(pool.id),
            map::recycling_key(pool.id),
            // Another pool may be called so.
            map::joint_limits_key(&map::pool_limits(&pool.name)),
        ];
        then.extend(own.map(|key| Op::Delete { key }));
        let all = [map::groups_prefix(pool.id), map::whole_prefix(pool.id)];
        then.extend(all.map(|key| Op::DeletePrefix { key }));
        // A program of an older version compares this alone.
        then.push(put(counter.clone(), &last));
        let call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&counter, counter_revision)],
            then,
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(pool);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// What stood there at one moment.
struct Seen {
    pool: Option<(Pool, u64)>,
    /// The last volume's number, and the revision of that.
    counter: (u64, u64),
    users: Users,
}

/// Who needs the pool.
#[derive(Default)]
struct Users {
    volumes: Vec<String>,
    deleted: Vec<String>,
    policies: Vec<String>,
}

impl Users {
    fn refuse(self, pool: &str) -> Result<()> {
        let Users {
            volumes,
            deleted,
            policies,
        } = self;
        if volumes.is_empty() && deleted.is_empty() && policies.is_empty() {
            return Ok(());
        }
        Err(AdminError::PoolInUse {
            pool: pool.to_owned(),
            volumes,
            deleted,
            policies,
        })
    }
}

fn look(meta: &dyn Transact, key: &str, counter: &str) -> Result<Seen> {
    let get = |key: &str| Op::Get { key: key.to_owned() };
    let all = |key: String| Op::Prefix { key };
    let reply = meta.txn(&Call {
        then: vec![
            get(key),
            get(counter),
            all(map::volume_key("")),
            all(map::policies_prefix()),
            all(map::trash_prefix()),
        ],
        ..Call::default()
    })?;
    let pool: Option<Pool> = reply.value(0).map(parse).transpose()?;
    let revision = reply.value(0).map_or(0, |found| found.mod_revision);
    let last = reply.value(1).map(parse).transpose()?.unwrap_or(0);
    let counter = (last, reply.value(1).map_or(0, |found| found.mod_revision));
    let mut users = Users::default();
    if let Some(pool) = &pool {
        users = users_of(pool, reply.values(2), reply.values(3), reply.values(4))?;
    }
    Ok(Seen {
        pool: pool.map(|pool| (pool, revision)),
        counter,
        users,
    })
}

fn users_of(pool: &Pool, volumes: &[KeyValue], policies: &[KeyValue], trash: &[KeyValue]) -> Result<Users> {
    let mut users = Users::default();
    // What they were called; one that nobody can read has its number for a name.
    let trash: Vec<Trashed> = trash.iter().filter_map(|found| found.json().ok()).collect();
    for found in volumes {
        let volume: Volume = parse(found)?;
        if volume.pool != pool.name {
            continue;
        }
        if !map::is_hidden(&volume.name) {
            users.volumes.push(volume.name);
            continue;
        }
        let called = trash.iter().find(|trashed| trashed.volume == volume.id);
        users
            .deleted
            .push(called.map_or(volume.name, |trashed| trashed.name.clone()));
    }
    for found in policies {
        let policy: Policy = parse(found)?;
        if policy.target == Target::Pool(pool.name.clone()) {
            users.policies.push(policy.name);
        }
    }
    Ok(users)
}
