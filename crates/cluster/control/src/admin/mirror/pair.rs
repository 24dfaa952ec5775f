//! Two clusters are made the two ends of a mirror: what each of them does by itself, and what is done again where that was cut short.

use super::super::token::{create_mirror_token, revoke_mirror_tokens};
use super::super::{AdminError, Result};
use super::add::{MirrorWish, TargetWish, add_mirror, add_mirrored};
use super::peer::tell_mirror_peer;
use super::record::mirror;
use super::remove::remove_mirror;
use amita_identity::ApiToken as Secret;
use amita_metadata::Transact;
use amita_types::map::{ApiToken, Mirror, MirrorPeer, MirrorRole};
use amita_types::{ClusterId, MirrorEpoch, MirrorId};
use std::time::Duration;

/// A secondary keeps so many points beside the one that it is at, where nobody says.
pub const USUAL_KEEP: u32 = 3;

/// Which end of a mirror a cluster is that is to join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined<'a> {
    /// None.
    No,
    /// The joining was cut short: it is gone on with.
    Halves,
    /// One of its ends, with all of its volumes, that is called so here.
    Stands(&'a str),
}

/// What this cluster, which has these mirrors, is of the one with that number.
#[must_use]
pub fn joined(all: &[Mirror], id: MirrorId) -> Joined<'_> {
    match all.iter().find(|found| found.id == id) {
        None => Joined::No,
        Some(found) if is_halves(found) => Joined::Halves,
        Some(found) => Joined::Stands(&found.name),
    }
}

/// It was cut short while it was joined. So was one of before there was a field that says so.
fn is_halves(found: &Mirror) -> bool {
    let never_brought = found.standing.point.is_none() && found.seen.is_none();
    found.joining || found.standing.role == MirrorRole::Secondary && found.paused.is_some() && never_brought
}

/// This cluster's volumes are mirrored, and another one may join by the token that is made: who makes it is noted.
///
/// # Errors
/// As [`add_mirror`] and [`create_mirror_token`]; without a token there is no mirror either.
pub fn add_mirror_to_join(
    meta: &dyn Transact,
    wish: &MirrorWish<'_>,
    volumes: &[String],
    (by, now): (&str, Duration),
) -> Result<(Mirror, ApiToken, Secret)> {
    let made = add_mirror(meta, wish, volumes)?;
    match create_mirror_token(meta, &made, by, now) {
        Ok((token, secret)) => Ok((made, token, secret)),
        // Without a token nobody could join it.
        Err(why) => match remove_mirror(meta, wish.name, true) {
            Ok(_) => Err(why),
            Err(more) => {
                log::warn!("mirror {} has no token, and cannot be removed: {more}", wish.name);
                Err(why)
            }
        },
    }
}

/// This cluster is made the other end, of this epoch: its record, its volumes, closed, and a token for the near end. It stands still until that was told,
/// and [`super::complete_mirrored`] said so. What was cut short is gone on with.
///
/// # Errors
/// As [`add_mirrored`] and [`create_mirror_token`]; the other end is another cluster.
pub fn join_mirror(
    meta: &dyn Transact,
    wish: &MirrorWish<'_>,
    epoch: MirrorEpoch,
    targets: &[TargetWish<'_>],
    (by, now): (&str, Duration),
) -> Result<(Mirror, Secret)> {
    // It was cut short behind the last volume.
    let is_made = match mirror(meta, wish.name) {
        Ok(found) => found.id == wish.id && found.volumes.len() == targets.len() && is_halves(&found),
        Err(AdminError::NoSuch { .. }) => false,
        Err(why) => return Err(why),
    };
    let made = match is_made {
        true => mirror(meta, wish.name)?,
        false => add_mirrored(meta, wish, epoch, targets, (by, now))?,
    };
    // What it is joined by may be newer.
    if tell_mirror_peer(meta, wish.name, &wish.peer)?.is_none() {
        return Err(other_peer(wish.name, wish.peer.cluster));
    }
    // Of one that nobody was told of nobody has the secret.
    revoke_mirror_tokens(meta, made.id)?;
    let (_, secret) = create_mirror_token(meta, &made, by, now)?;
    Ok((made, secret))
}

/// The other end of a mirror that stands is known by another token from now on, and gets another one for this end; nothing else is changed. Those of
/// before stay good: the other end may have one still, and be told of no other.
///
/// # Errors
/// There is no such mirror, or its other end is another cluster; it has as many tokens as can be; the metadata is away or refuses.
pub fn join_mirror_again(
    meta: &dyn Transact,
    name: &str,
    peer: &MirrorPeer,
    (by, now): (&str, Duration),
) -> Result<Secret> {
    match tell_mirror_peer(meta, name, peer)? {
        Some(record) => create_mirror_token(meta, &record, by, now).map(|(_, secret)| secret),
        None => Err(other_peer(name, peer.cluster)),
    }
}

fn other_peer(name: &str, cluster: Option<ClusterId>) -> AdminError {
    let cluster = cluster.map_or_else(|| "the one that is named".to_owned(), |cluster| cluster.to_string());
    AdminError::BadSetting {
        what: "mirror",
        name: name.to_owned(),
        why: format!("its other end is another cluster than {cluster}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(id: u128, more: serde_json::Value) -> Mirror {
        let mut record = json!({
            "id": MirrorId(id), "name": format!("m{id}"), "role": "secondary", "epoch": 0, "volumes": [], "peer": {}, "interval_s": 60,
            "keep": 3
        });
        for (key, value) in more.as_object().unwrap() {
            record[key] = value.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    /// A token that has ended is exchanged while the mirror stands, whatever its end is, and whether it stands still or not.
    #[test]
    fn a_mirror_that_stands_is_joined_again_and_one_in_the_making_is_gone_on_with() {
        let paused = json!({"by": "somebody", "at": 1});
        let point = json!({"epoch": 0, "number": 1});
        for (more, stands) in [
            (json!({"role": "primary"}), true),
            (json!({"role": "primary", "paused": paused}), true),
            (json!({"point": point, "paused": paused}), true),
            (json!({}), true),
            (json!({"joining": true, "paused": paused}), false),
            // Of before there was that field.
            (json!({"paused": paused}), false),
        ] {
            let all = [record(6, json!({})), record(7, more.clone())];
            let wanted = match stands {
                true => Joined::Stands("m7"),
                false => Joined::Halves,
            };
            assert_eq!(joined(&all, MirrorId(7)), wanted, "{more}");
        }
        assert_eq!(joined(&[], MirrorId(7)), Joined::No);
    }
}
