//! Looks at all copies of a volume: asked for here, carried out by the volume's owner.

use super::volume::with_deleted;
use super::{AdminError, Result, get, put_if, tries, volume};
use amita_metadata::Transact;
use amita_types::map::{self, Scrub};
use amita_types::{Generation, VolumeId};
use std::time::Duration;

/// Asks for a look at all copies of a volume; `now` is the time since 1970. Returns its number: it has ended when
/// [`Scrub::finished`] has got there. One that is asked for and has not ended serves this request as well, and goes on if it was paused.
///
/// # Errors
/// There is no volume of that name, or it was never opened and has no data; the metadata is away or refuses.
pub fn scrub_volume(meta: &dyn Transact, name: &str, now: Duration) -> Result<u64> {
    let volume = volume(meta, name)?;
    if volume.generation == Generation(0) {
        return Err(AdminError::BadSetting {
            what: "volume",
            name: name.to_owned(),
            why: "it was never opened, so there is nothing to look at".to_owned(),
        });
    }
    request(meta, volume.id, now)
}

fn request(meta: &dyn Transact, volume: VolumeId, now: Duration) -> Result<u64> {
    let key = map::scrub_key(volume);
    for _ in tries(meta) {
        let (scrub, revision) = get::<Scrub>(meta, &key)?.unwrap_or_default();
        if scrub.is_due() {
            return Ok(scrub.requested);
        }
        let scrub = match scrub.is_under_way() {
            true => Scrub { paused: None, ..scrub },
            false => Scrub {
                requested: scrub.requested + 1,
                requested_at: now.as_secs(),
                progress: None,
                paused: None,
                ..scrub
            },
        };
        if put_if(meta, &key, revision, &scrub)? {
            return Ok(scrub.requested);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Takes back the look at a volume's copies that is under way: `false`: there is none. What was found until then is what it has found.
///
/// # Errors
/// There is no volume of that name; the metadata is away or refuses.
pub fn cancel_scrub(meta: &dyn Transact, name: &str) -> Result<bool> {
    let key = map::scrub_key(volume(meta, name)?.id);
    for _ in tries(meta) {
        let found = get::<Scrub>(meta, &key)?.filter(|(scrub, _)| scrub.is_under_way());
        let Some((scrub, revision)) = found else {
            return Ok(false);
        };
        let progress = scrub.progress.unwrap_or_default();
        let scrub = Scrub {
            finished: scrub.requested,
            report: progress.report,
            unread: progress.unread,
            cancelled: true,
            progress: None,
            paused: None,
            ..scrub
        };
        if put_if(meta, &key, revision, &scrub)? {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// What is known of the looks at a volume's copies.
///
/// # Errors
/// There is no volume of that name; the metadata is away.
pub fn scrub_state(meta: &dyn Transact, name: &str) -> Result<Scrub> {
    let volume = volume(meta, name)?;
    let found = get::<Scrub>(meta, &map::scrub_key(volume.id))?;
    Ok(found.map(|(scrub, _)| scrub).unwrap_or_default())
}

/// Asks for a look at the copies of every volume of which the last one was asked for longer than `every` ago, but of no more
/// than `most` at once. Returns their names.
///
/// # Errors
/// The metadata is away or refuses.
pub fn scrub_what_is_due(meta: &dyn Transact, every: Duration, most: usize, now: Duration) -> Result<Vec<String>> {
    let mut under_way = 0;
    let mut due = Vec::new();
    for volume in with_deleted(meta)? {
        let found = get::<Scrub>(meta, &map::scrub_key(volume.id))?;
        let scrub = found.map(|(scrub, _)| scrub).unwrap_or_default();
        // One that stands still takes nobody's turn.
        under_way += usize::from(scrub.is_due());
        let next = scrub.requested_at.saturating_add(every.as_secs());
        if volume.generation > Generation(0) && scrub.requested == scrub.finished && next <= now.as_secs() {
            due.push((scrub.requested_at, volume));
        }
    }
    due.sort_by_key(|(at, volume)| (*at, volume.id));
    let mut asked = Vec::new();
    for (_, volume) in due.into_iter().take(most.saturating_sub(under_way)) {
        request(meta, volume.id, now)?;
        asked.push(volume.name);
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_metadata::Call;
    use amita_metadata::model::State;
    use amita_types::NodeId;
    use amita_types::map::Volume;
    use std::sync::Mutex;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn put<T: serde::Serialize>(meta: &dyn Transact, key: String, value: &T) {
        meta.txn(&Call::put(key, serde_json::to_vec(value).unwrap())).unwrap();
    }

    fn with_volumes() -> Mutex<State> {
        let meta = Mutex::new(State::new());
        for (id, generation) in [(1, 3), (2, 1), (3, 0)] {
            let volume = Volume {
                generation: Generation(generation),
                owner: Some(NodeId(1)),
                ..Volume::new(VolumeId(id), &format!("v{id}"), "main", 4096)
            };
            put(&meta, map::volume_key(&volume.name), &volume);
        }
        meta
    }

    fn finish(meta: &dyn Transact, volume: &str) {
        let id = volume_id(meta, volume);
        let scrub = scrub_state(meta, volume).unwrap();
        let finished = scrub.requested;
        put(meta, map::scrub_key(id), &Scrub { finished, ..scrub });
    }

    fn volume_id(meta: &dyn Transact, name: &str) -> VolumeId {
        volume(meta, name).unwrap().id
    }

    #[test]
    fn a_look_is_asked_for_once_until_it_has_ended() {
        let meta = with_volumes();
        assert_eq!(scrub_volume(&meta, "v1", DAY).unwrap(), 1);
        assert_eq!(scrub_volume(&meta, "v1", DAY).unwrap(), 1);
        finish(&meta, "v1");
        assert_eq!(scrub_volume(&meta, "v1", DAY).unwrap(), 2);
        assert!(scrub_volume(&meta, "v3", DAY).is_err(), "it was never opened");
        assert!(scrub_volume(&meta, "v9", DAY).is_err(), "there is none");
    }

    #[test]
    fn what_is_due_is_asked_for_the_oldest_first_and_not_all_at_once() {
        let meta = with_volumes();
        let due = |days: u32| scrub_what_is_due(&meta, 7 * DAY, 1, days * DAY).unwrap();
        assert_eq!(due(20_000), ["v1"]);
        assert!(due(20_000).is_empty(), "one is under way");
        finish(&meta, "v1");
        assert_eq!(due(20_001), ["v2"], "what has no data is left alone");
        finish(&meta, "v2");
        assert!(due(20_006).is_empty());
        assert_eq!(due(20_007), ["v1"]);
        finish(&meta, "v1");
        assert!(due(20_007).is_empty());
        assert_eq!(due(20_008), ["v2"]);
    }
}
