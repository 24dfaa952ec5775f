//! The data of volumes for the API of a node, by the code of the commands.
//!
//! Each request has a gateway of its own, as each command has: it joins the cluster below the node's name, by the node's identity, and
//! leaves when the request has ended (decision 067). So it is a stranger to the node's own cores, waits for hosts as any other gateway,
//! and after a revert none is left that would go on with what the volume was.

use super::data::{OWNER_PATIENCE, Way, is_alone, not_alone};
use super::ended::Ended;
use super::image::{Format, Source};
use super::import::Copy;
use super::{diff, export, revert};
use crate::commands::{backup, mirror};
use amita_api::mirror::{MirrorBootstrap, MirrorLink, MirrorPeerTold};
use amita_api::{
    Asking, BackupPointFound, Changed, Code, DataPath, Diff, Differences, Going, Image, Imported, MirrorRead, Problem,
    Revert, Reverted, Sink,
};
use amita_client::Config;
use amita_control::access::Action;
use amita_control::admin;
use amita_keys::SealKey;
use amita_node::serve::{Level, Log, ServeConfig};
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Failure, Kind};
use amita_types::map::{BackupRepository, Import, Mirror, MirrorPeer, Standing};
use std::cell::RefCell;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Memory of one gateway: what is under way of a copy at one time.
const BUFFER_BYTES: usize = 64 << 20;
/// Of a comparison at most so many chunks are looked at for one answer: 256 GiB, of chunks of 4 MiB.
const CHUNKS: u64 = 65_536;

/// A copy, a comparison or a revert ends where nothing of it has moved for so long: its place and the volume are for others, then.
const STALL: Duration = Duration::from_secs(120);

/// A node's way to the data of volumes.
pub struct Gateways {
    config: Config,
    /// What the node is called.
    node: String,
    /// The file of the cluster's sealing key: by that the other ends of mirrors are asked.
    seal_key: Option<PathBuf>,
}

impl fmt::Debug for Gateways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateways")
    }
}

impl Gateways {
    /// Of a node with these settings, and with the identity of that folder. None: it reaches the metadata by a password, which is its own.
    pub fn of(node: &ServeConfig, identity: Option<&Path>) -> Option<Arc<dyn DataPath>> {
        let (seal_key, name) = (node.seal_key.clone(), node.name.clone());
        let of = |config| Gateways {
            config,
            node: name,
            seal_key,
        };
        Gateways::config(node, identity).map(|config| Arc::new(of(config)) as Arc<dyn DataPath>)
    }

    /// The settings of such a gateway; none: as [`Gateways::of`].
    pub(crate) fn config(node: &ServeConfig, identity: Option<&Path>) -> Option<Config> {
        if node.metadata_user.is_some() {
            return None;
        }
        let mut config = Config::new(node.metadata.clone());
        config.identity = identity.map(Path::to_owned);
        config.links = node.protection;
        config.volume_keys.clone_from(&node.volume_keys);
        config.insecure_network = node.insecure_network;
        // Where the node itself is reached, at a port of its own.
        config.fabric = Some(SocketAddr::new(node.fabric.ip(), 0));
        config.advertise = node.advertise.or(node.advertise_fabric.map(|address| address.ip()));
        config.lease_ttl_s = node.lease_ttl_s;
        config.owner_patience = Some(OWNER_PATIENCE);
        config.buffer_bytes = BUFFER_BYTES;
        // It leaves processors to the cores that serve hosts.
        config.yields = 0;
        config.log = Some(log());
        Some(config)
    }

    fn way(&self) -> Way {
        Way::of(self.config.clone(), None).stalling(STALL)
    }

    /// The same for as long as the work is wanted.
    fn way_while(&self, going: &Going) -> Way {
        let going = going.clone();
        self.way()
            .wanted(move || going.check().map_err(|why| Failure::new(why.detail)))
    }
}

fn log() -> Log {
    Arc::new(|level, text| {
        let level = match level {
            Level::Error => log::Level::Error,
            Level::Warn => log::Level::Warn,
            // That it comes and goes is no news.
            Level::Info => log::Level::Debug,
        };
        log::log!(target: "gateway", level, "{text}");
    })
}

/// A failure of a command, as the API tells it.
pub(crate) fn problem(failure: Failure) -> Problem {
    let code = match failure.code {
        "denied" => Code::Denied,
        backup::ANOTHER_NODE => Code::Misdirected,
        "metadata-unavailable" | "outcome-unknown" => Code::MetadataAway,
        "bad-setting" | "bad-name" => Code::BadSetting,
        "limit-reached" | "over-quota" => Code::NoRoom,
        "attached" | "attached-still" | "is-lun" | "protected" | "served-by-nvme" | "exported" => Code::InUse,
        _ => match failure.kind {
            Kind::Usage | Kind::Unreadable => Code::BadRequest,
            Kind::Unreachable => Code::NotInTime,
            Kind::NotFound => Code::NotFound,
            _ => Code::WrongState,
        },
    };
    let Failure { what, advice, .. } = failure;
    match advice.is_empty() {
        true => Problem::new(code, what),
        false => Problem::new(code, format!("{what}. {advice}")),
    }
}

impl DataPath for Gateways {
    fn revert(&self, session: &Asking, wanted: &Revert<'_>) -> Result<Reverted, Problem> {
        let wish = revert::Wish {
            volume: wanted.volume,
            snapshot: wanted.snapshot,
            keep: wanted.keep,
            dry_run: wanted.dry_run,
        };
        let target = revert::target(&wish, &session.reader()).map_err(problem)?;
        // Who has opened the volume since it was read is seen by its generation.
        (wanted.check)()?;
        let keys = self.config.volume_keys.as_ref().map(KeyFile::at);
        let done = revert::revert(&wish, target, (&self.way(), keys.as_ref()), session).map_err(problem)?;
        Ok(Reverted {
            record_id: done.id,
            id: done.stable_id,
            kept: done.kept,
            size_bytes: done.size_bytes,
            snapshot_size_bytes: done.snapshot_size_bytes,
            levels: done.levels,
            flattening: done.flattening,
        })
    }

    fn backup_points(
        &self,
        repository: &BackupRepository,
        volume: Option<&str>,
    ) -> Result<Vec<BackupPointFound>, Problem> {
        backup::points_of(repository, &self.node, self.config.insecure_network, volume).map_err(problem)
    }

    fn diff(&self, session: &Asking, wanted: &Diff<'_>) -> Result<Differences, Problem> {
        let sides = diff::sides(&session.reader(), wanted.volume, wanted.from, wanted.to).map_err(problem)?;
        let mut data = sides.open(&self.way()).map_err(problem)?;
        let mut extents = Vec::new();
        let found = diff::each(wanted.after, sides.size_bytes, CHUNKS, &mut data, |extent| {
            let has_room = extents.len() < wanted.limit;
            if has_room {
                extents.push(Changed {
                    offset: extent.offset,
                    length: extent.length,
                    is_zero: extent.is_zero,
                });
            }
            Ok(has_room)
        });
        data.close();
        Ok(Differences {
            next: found.map_err(problem)?,
            from_size_bytes: sides.from.size_bytes,
            size_bytes: sides.size_bytes,
            extents,
        })
    }

    fn export(&self, session: &Asking, name: &str, sink: &mut dyn Sink, going: &Going) -> Result<(), Problem> {
        let before = export::place_of(&session.reader(), name).map_err(problem)?;
        let (mut data, place) =
            export::open(&self.way_while(going), &session.reader(), name, &before).map_err(problem)?;
        // What the sink says is told as it is.
        let mut refused = sink.begin(place.size_bytes).err();
        let copied = match refused {
            Some(_) => Ok(()),
            None => data.each_piece(0, place.size_bytes, |_, bytes| {
                sink.write(std::mem::take(bytes)).map_err(|why| {
                    let failure = Failure::new(why.detail.clone());
                    refused = Some(why);
                    failure
                })
            }),
        };
        data.close();
        match refused {
            Some(why) => Err(why),
            None => copied.map_err(|failure| going.check().err().unwrap_or_else(|| problem(failure))),
        }
    }

    fn import(
        &self,
        session: &Asking,
        image: &Image<'_>,
        from: Box<dyn amita_api::Source>,
    ) -> Result<Imported, Problem> {
        let name = image.volume;
        let before = admin::volume(&session.reader(), name)?;
        // Opened, it would be written anew from its beginning.
        admin::none_copies(&session.reader(), &before)?;
        (image.check)()?;
        let from = Shared(Rc::new(RefCell::new(from)));
        let format = image.as_it_is.then_some(Format::Raw);
        let (source, _) = Source::stream(Box::new(from.clone()), format, "the image").map_err(problem)?;
        let data = self.way_while(image.going).open(name).map_err(problem)?;
        let mark = Import {
            format: Format::Raw.name().to_owned(),
            image_bytes: image.bytes,
            modified_ns: 0,
            done_bytes: 0,
            ails: None,
            attempt: Some(Uuid::new_v4()),
        };
        let volume = admin::volume(&session.reader(), name)?;
        if !is_alone(&data, &before, &volume) {
            return Err(problem(not_alone(name, "is written")));
        }
        if admin::about(&session.reader(), volume.id)?.protected {
            let why = format!("volume {name} was protected meanwhile; nothing is written");
            return Err(Problem::new(Code::InUse, why));
        }
        // One action, however long it takes: how far it is stands in the volume's record, and not in the audit log.
        session.act(Action::VolumeImport, name, |meta| {
            admin::begin_import(meta, &volume, &mark)?;
            let mut copy = Copy::of(source, mark, &volume);
            let copied = copy.copy_into(data, false, meta).map_err(|ended| match ended {
                // Where it is not wanted any more, the reason for that is told.
                Ended::Copy(failure) => image.going.check().err().unwrap_or_else(|| problem(failure)),
                Ended::Admin(why) => why.into(),
            });
            match copied.and_then(|()| from.0.borrow_mut().check()) {
                Ok(()) => {
                    admin::end_import(meta, &volume, &copy.import)?;
                    Ok(Imported {
                        size_bytes: volume.size_bytes,
                        written_bytes: copy.written_bytes,
                    })
                }
                // What was begun and why it has ended stays, for whoever looks at jobs.
                Err(why) => {
                    let import = Import {
                        ails: Some(format!("{}; send the image again from its beginning", why.detail)),
                        ..copy.import.clone()
                    };
                    if let Err(more) = admin::note_import(meta, &volume, &import) {
                        log::warn!("why the import into {name} has ended is not noted: {more}");
                    }
                    Err(why)
                }
            }
        })
    }

    fn mirror(
        &self,
        session: &Asking,
        read: &MirrorRead<'_>,
        sink: &mut dyn Sink,
        going: &Going,
    ) -> Result<(), Problem> {
        mirror::read::send((&self.way_while(going), &session.reader()), read, sink, going)
    }

    fn look_at_mirror(&self, found: &Mirror) -> Option<Result<Standing, Problem>> {
        // The file may have been exchanged.
        let key = SealKey::load(self.seal_key.as_deref()?).ok()?;
        let link = mirror::link::Link::of(found, Some(&key)).ok()?;
        Some(link.look().map(|there| there.standing).map_err(problem))
    }

    fn look_at_near_end(&self, near: &MirrorBootstrap) -> Result<MirrorLink, Problem> {
        near_end(near).and_then(|link| link.look()).map_err(problem)
    }

    fn tell_near_end(&self, near: &MirrorBootstrap, told: &MirrorPeerTold) -> Result<(), Problem> {
        near_end(near).and_then(|link| link.tell_peer(told)).map_err(problem)
    }
}

/// The way to the end that a mirror is joined at. No record of this cluster says how that is reached.
fn near_end(near: &MirrorBootstrap) -> Result<mirror::link::Link, Failure> {
    let peer = MirrorPeer {
        cluster: Some(near.cluster),
        addresses: near.addresses.clone(),
        authority: near.authority.clone(),
        token: String::new(),
    };
    mirror::link::Link::new(&peer, &near.token, near.mirror)
}

/// What comes, for who reads it, and for who looks at the end whether it was all.
#[derive(Clone)]
struct Shared(Rc<RefCell<Box<dyn amita_api::Source>>>);

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_codes_of_the_api() {
        let of = |failure: Failure| problem(failure).code;
        assert_eq!(of(Failure::new("x")), "wrong-state");
        for (kind, code) in [
            (Kind::Usage, "bad-request"),
            (Kind::NotFound, "not-found"),
            (Kind::Conflict, "wrong-state"),
            (Kind::Unreachable, "not-in-time"),
        ] {
            assert_eq!(of(Failure::new("x").kind(kind)), code);
        }
        let away = amita_metadata::Error::Unavailable {
            what: "no answer".to_owned(),
            endpoints: "127.0.0.1:1".to_owned(),
        };
        assert_eq!(of(crate::admin::metadata_failure(&away)), "metadata-away");
    }
}
