//! The token by which the other end knows this one is renewed before it ends, whether a pass is under way or not: one may take longer than a token
//! lives.

use super::far::Far;
use crate::admin::Described;
use crate::commands::mirror::link::seal_token;
use crate::logging::timestamp;
use amita_control::admin;
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_terminal::error::{Context as _, Result};
use amita_types::map::{Mirror, MirrorPeer};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A token is renewed from so many seconds before its end on.
const RENEWED_BEFORE_S: u64 = 7 * 24 * 3600;
/// Where it was not by then, so many seconds before, that is told.
const TOLD_BEFORE_S: u64 = 3 * 24 * 3600;
/// Where that fails it is tried again after this.
const RENEWED_AGAIN: Duration = Duration::from_secs(3600);

/// Of one mirror, in one claim.
pub(super) struct Renewal {
    name: String,
    claim: u64,
    seal_key: Option<PathBuf>,
    /// It is tried again then.
    renews: Cell<Instant>,
    /// Why it was not renewed when that was tried last; and until when it is good, in seconds since 1970, as far as that is known beside the record.
    failed: RefCell<Option<String>>,
    ends_at: Cell<u64>,
}

/// Does it end soon, or is it not known when?
fn ends_soon(record: &Mirror, now: Duration) -> bool {
    let ends_at = record.token_ends_at;
    ends_at.is_none_or(|ends| now.as_secs().saturating_add(RENEWED_BEFORE_S) >= ends)
}

impl Renewal {
    pub fn new(name: &str, claim: u64, seal_key: Option<PathBuf>) -> Renewal {
        Renewal {
            name: name.to_owned(),
            claim,
            seal_key,
            renews: Cell::new(Instant::now()),
            failed: RefCell::default(),
            ends_at: Cell::new(0),
        }
    }

    /// What is to be told of a token that ends within days, and that nobody has renewed.
    pub fn ails(&self, record: &Mirror, now: Duration) -> Option<String> {
        let ends_at = record.token_ends_at?.max(self.ends_at.get());
        if now.as_secs().saturating_add(TOLD_BEFORE_S) < ends_at {
            return None;
        }
        let failed = self.failed.borrow();
        let why = failed.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Some(format!(
            "the token by which the other end knows this one ends at {}, and is not renewed{why}. `amita mirror token {} --bootstrap FILE` there makes \
             another one, and `amita mirror join FILE` here takes it",
            timestamp(ends_at, 0),
            self.name
        ))
    }

    /// The sealing key. It is read anew: the file may have been exchanged.
    pub fn sealing(&self) -> Result<Option<SealKey>> {
        let loaded = self.seal_key.as_deref().map(SealKey::load).transpose();
        loaded.context(|| "the sealing key of this node".to_owned())
    }

    /// Renews it where it is time. `peer`: what `far` was reached by, as the record said it then.
    pub fn look(&self, meta: &dyn Transact, record: &Mirror, (peer, far): (&MirrorPeer, &dyn Far), now: Duration) {
        if !ends_soon(record, now) || Instant::now() < self.renews.get() {
            return;
        }
        self.renews.set(Instant::now() + RENEWED_AGAIN);
        match self.renew(meta, (peer, far), now) {
            Ok(ends_at) => {
                self.failed.replace(None);
                self.ends_at.set(ends_at.unwrap_or_default());
            }
            Err(why) => {
                log::warn!(
                    "mirror {}: the token for the other end is not renewed: {}",
                    self.name,
                    why.what
                );
                self.failed.replace(Some(why.what));
            }
        }
    }

    /// Until when it is good then, where that is known.
    fn renew(&self, meta: &dyn Transact, (peer, far): (&MirrorPeer, &dyn Far), now: Duration) -> Result<Option<u64>> {
        // What was read before a pass may be of long ago: it was renewed within.
        let record = admin::mirror(meta, &self.name).described()?;
        if record.peer != *peer || !ends_soon(&record, now) {
            return Ok(record.token_ends_at);
        }
        let Some(key) = self.sealing()? else { return Ok(None) };
        let renewed = far.renew()?;
        let sealed = seal_token(&key, record.id, &renewed.token)?;
        let noted = admin::note_mirror(meta, &self.name, self.claim, &|record| {
            // The other end has told of another one meanwhile.
            if record.peer == *peer {
                record.peer.token.clone_from(&sealed);
                record.token_ends_at = Some(renewed.ends_at);
            }
        });
        // Whoever has lost the claim sees that by what it is at.
        noted.described().map(|_| Some(renewed.ends_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::mirror::link::{Renewed, unseal_token};
    use crate::commands::mirror::wire::Reader;
    use amita_api::mirror::MirrorLink;
    use amita_metadata::Call;
    use amita_metadata::model::State;
    use amita_terminal::error::Failure;
    use amita_types::map::{self, Point, PointName};
    use amita_types::{MirrorEpoch, MirrorId};
    use std::io::Read;
    use std::sync::Mutex;

    #[derive(Default)]
    struct There(Cell<u32>);

    impl Far for There {
        fn look(&self) -> Result<MirrorLink> {
            Err(Failure::new("it is not looked at"))
        }

        fn cut(&self, _: MirrorEpoch) -> Result<Option<Point>> {
            Ok(None)
        }

        fn renew(&self) -> Result<Renewed> {
            self.0.set(self.0.get() + 1);
            Ok(Renewed {
                token: "another".to_owned(),
                ends_at: 90 * 24 * 3600,
            })
        }

        fn data(&self, _: PointName, _: &str, _: Option<PointName>, _: u64) -> Result<Reader<Box<dyn Read>>> {
            Err(Failure::new("no data is asked for"))
        }
    }

    #[test]
    fn a_token_is_renewed_a_week_before_its_end_once_and_for_whom_it_was_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, key) = (folder.path().join("seal"), SealKey::generate());
        key.save(&path).expect("written");
        let day = 24 * 3600;
        let record = serde_json::json!({
            "id": MirrorId(7), "name": "dr", "role": "secondary", "epoch": 2, "volumes": [], "interval_s": 60, "keep": 2,
            "peer": {"addresses": ["n1:1"], "token": "sealed"}, "token_ends_at": 30 * day
        });
        let record: Mirror = serde_json::from_value(record).expect("a record");
        let meta = Mutex::new(State::default());
        let put = |key: String, value: Vec<u8>| meta.txn(&Call::put(key, value)).expect("a model").revision;
        put(map::mirror_key("dr"), serde_json::to_vec(&record).expect("JSON"));
        let claim = put(map::mirror_runner_key("dr"), b"\"n1\"".to_vec());
        let (renewal, there) = (Renewal::new("dr", claim, Some(path)), There::default());
        let at = |days: u64| Duration::from_secs(days * day);
        let peer = record.peer.clone();
        renewal.look(&meta, &record, (&peer, &there), at(22));
        assert_eq!(there.0.get(), 0, "it is good for more than a week");
        for _ in 0..2 {
            renewal.look(&meta, &record, (&peer, &there), at(24));
        }
        assert_eq!(there.0.get(), 1, "not again at once");
        let now = admin::mirror(&meta, "dr").expect("a record");
        assert_eq!(now.token_ends_at, Some(90 * day));
        let token = unseal_token(&key, record.id, &now.peer.token).expect("opened");
        assert_eq!(token.as_str(), "another");
        // It was renewed meanwhile, as within a pass: the other end is asked for no more of them.
        let late = Renewal::new("dr", claim, renewal.seal_key.clone());
        late.look(&meta, &record, (&peer, &there), at(24));
        let after = admin::mirror(&meta, "dr").expect("a record");
        assert_eq!((there.0.get(), after.peer), (1, now.peer));
    }

    #[test]
    fn a_token_that_nobody_has_renewed_is_told_three_days_before_its_end() {
        struct Silent;
        impl Far for Silent {
            fn look(&self) -> Result<MirrorLink> {
                Err(Failure::new("it is not looked at"))
            }

            fn cut(&self, _: MirrorEpoch) -> Result<Option<Point>> {
                Ok(None)
            }

            fn renew(&self) -> Result<Renewed> {
                Err(Failure::new("it makes none"))
            }

            fn data(&self, _: PointName, _: &str, _: Option<PointName>, _: u64) -> Result<Reader<Box<dyn Read>>> {
                Err(Failure::new("no data is asked for"))
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("seal");
        SealKey::generate().save(&path).expect("written");
        let day = 24 * 3600;
        let record = serde_json::json!({
            "id": MirrorId(7), "name": "dr", "role": "secondary", "epoch": 2, "volumes": [], "interval_s": 60, "keep": 2,
            "peer": {"addresses": ["n1:1"], "token": "sealed"}, "token_ends_at": 30 * day
        });
        let record: Mirror = serde_json::from_value(record).expect("a record");
        let meta = Mutex::new(State::default());
        let put = |key: String, value: Vec<u8>| meta.txn(&Call::put(key, value)).expect("a model").revision;
        put(map::mirror_key("dr"), serde_json::to_vec(&record).expect("JSON"));
        let claim = put(map::mirror_runner_key("dr"), b"\"n1\"".to_vec());
        let at = |days: u64| Duration::from_secs(days * day);
        let renewal = Renewal::new("dr", claim, Some(path.clone()));
        renewal.look(&meta, &record, (&record.peer, &Silent), at(26));
        assert_eq!(renewal.ails(&record, at(26)), None, "there is time left");
        let told = renewal.ails(&record, at(27)).expect("it is told");
        assert!(
            told.contains("it makes none") && told.contains("mirror token dr"),
            "{told}"
        );
        // By what was read before it was renewed nothing is told.
        let renewal = Renewal::new("dr", claim, Some(path));
        renewal.look(&meta, &record, (&record.peer, &There::default()), at(28));
        assert_eq!(renewal.ails(&record, at(28)), None);
    }
}
