//! The data of volumes: what is copied out and in, compared, or made what it was; and what repositories of backups have of it.
//!
//! It is read and written by the program that serves the API, with the code of its commands: the API knows no gateway. What is asked of it
//! blocks, and has a thread of its own.

use crate::going::Going;
use crate::mirror::{MirrorBootstrap, MirrorLink, MirrorPeerTold};
use crate::problem::{Code, Problem};
use crate::session::Asking;
use amita_types::map::{BackupRepository, Mirror, Standing};
use axum::extract::Request;
use http::Method;
use std::fmt;
use std::io::Read;

/// Is the request's body an image? It is the one body that has no limit but the volume's size, and is read as it comes.
pub(crate) fn is_stream(request: &Request) -> bool {
    let within = request.uri().path().strip_prefix(crate::PREFIX);
    let volume = within.and_then(|path| path.strip_prefix("/volumes/")?.strip_suffix("/data"));
    request.method() == Method::PUT && volume.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// A volume that is to be what a snapshot of it is.
#[derive(Clone, Copy)]
pub struct Revert<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The snapshot's.
    pub snapshot: &'a str,
    /// A snapshot of what the volume is now stays.
    pub keep: bool,
    /// It is only said whether it can be.
    pub dry_run: bool,
    /// Called when it is known what there is, and before anything is done: is it what was looked at?
    pub check: &'a dyn Fn() -> Result<(), Problem>,
}

/// What was done of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The number of the volume's records: another one than before.
    pub record_id: u64,
    /// The number that stays.
    pub id: u64,
    /// The snapshot of what the volume was before; none: it is lost, or nothing was done.
    pub kept: Option<String>,
    /// The volume's size, which stays.
    pub size_bytes: u64,
    /// The snapshot's; what is behind is zeros.
    pub snapshot_size_bytes: u64,
    /// So many levels of clones and reverts the volume comes from.
    pub levels: usize,
    /// They are many: it is flattened in the background.
    pub flattening: bool,
}

/// What is to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Diff<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The older snapshot, or its mark.
    pub from: &'a str,
    /// The newer one; none: the volume as it is.
    pub to: Option<&'a str>,
    /// Only what lies behind so many bytes.
    pub after: u64,
    /// At most so many extents.
    pub limit: usize,
}

/// Blocks that follow each other and were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// They are zeros now, and take no space.
    pub is_zero: bool,
}

/// What differs, or a piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    /// The volume's size at the older snapshot.
    pub from_size_bytes: u64,
    /// Its size in the newer one, or now.
    pub size_bytes: u64,
    /// In their order.
    pub extents: Vec<Changed>,
    /// Up to where it was looked; none: to the end.
    pub next: Option<u64>,
}

/// Where a copy of a volume goes.
pub trait Sink {
    /// It is open, and so many bytes will come.
    ///
    /// # Errors
    /// Nobody wants them any more.
    fn begin(&mut self, size_bytes: u64) -> Result<(), Problem>;

    /// The next bytes. Waits where there is no room.
    ///
    /// # Errors
    /// Nobody wants them any more, or not for too long.
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), Problem>;
}

/// Where an image comes from.
pub trait Source: Read {
    /// Called when all of it was read: is it the one that it was said to be?
    ///
    /// # Errors
    /// It is not.
    fn check(&mut self) -> Result<(), Problem>;
}

/// An image that is to be copied into a volume: raw, byte for byte.
pub struct Image<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The image's size. It fits.
    pub bytes: u64,
    /// Also where its head says that it is something else than raw.
    pub as_it_is: bool,
    /// As [`Revert::check`].
    pub check: &'a dyn Fn() -> Result<(), Problem>,
    /// It is ended early where this says so.
    pub going: &'a Going,
}

/// What was done of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The volume's size; what is behind the image is zeros.
    pub size_bytes: u64,
    /// What was written: not zeros.
    pub written_bytes: u64,
}

/// What is to be sent of a volume, as a point of its mirror has it.
#[derive(Clone, Copy, Debug)]
pub struct MirrorRead<'a> {
    /// What the volume is called here.
    pub volume: &'a str,
    /// The point's snapshot of it.
    pub snapshot: &'a str,
    /// The snapshot that it is compared with; none: all of it is sent.
    pub base: Option<&'a str>,
    /// Only what lies behind so many bytes.
    pub after: u64,
    /// At most so many bytes a second are read.
    pub limit_bytes_per_s: Option<u64>,
}

/// A point of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPointFound {
    /// Its number.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// When its snapshots were taken, in seconds since 1970.
    pub taken_at: u64,
    /// What it has.
    pub volumes: Vec<BackupPointVolumeFound>,
}

/// A volume as a point has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPointVolumeFound {
    /// What it was called.
    pub name: String,
    /// The UUID of its cluster.
    pub cluster: String,
    /// Its own.
    pub uuid: String,
    /// Its size then.
    pub size_bytes: u64,
    /// It was encrypted at rest.
    pub encrypted: bool,
    /// The point that its changes were counted from.
    pub parent: Option<u64>,
}

/// The way to the data of volumes, as a gateway. Each call opens the volume for itself, as who may: that they may was looked at.
pub trait DataPath: fmt::Debug + Send + Sync {
    /// Makes a volume what a snapshot of it is.
    ///
    /// # Errors
    /// It cannot be, others use it, or it was changed meanwhile: nothing is changed then, but for a snapshot that may have been taken.
    fn revert(&self, session: &Asking, revert: &Revert<'_>) -> Result<Reverted, Problem>;

    /// What was changed between two snapshots, or since one.
    ///
    /// # Errors
    /// They cannot be compared; others use the volume, where it is compared as it is.
    fn diff(&self, session: &Asking, diff: &Diff<'_>) -> Result<Differences, Problem>;

    /// Copies a volume, or a snapshot (VOLUME@SNAPSHOT), to whoever reads it.
    ///
    /// # Errors
    /// It is not to be had, or cannot be read; or what the sink says.
    fn export(&self, session: &Asking, name: &str, sink: &mut dyn Sink, going: &Going) -> Result<(), Problem>;

    /// Copies an image into a volume: what is behind reads as zeros. Where that fails, the record of the volume's import stays, with how far
    /// it has come.
    ///
    /// # Errors
    /// Others use the volume, it cannot be written; or what the source says.
    fn import(&self, session: &Asking, image: &Image<'_>, from: Box<dyn Source>) -> Result<Imported, Problem>;

    /// Sends what a point of a mirror has of a volume, or what differs from another point, in frames to the other end. The sink's `begin` is told
    /// the point's size of the volume.
    ///
    /// # Errors
    /// It is not to be had, cannot be read or compared; or what the sink says.
    fn mirror(
        &self,
        session: &Asking,
        read: &MirrorRead<'_>,
        sink: &mut dyn Sink,
        going: &Going,
    ) -> Result<(), Problem>;

    /// The points of a repository, the oldest first: those that have a volume which was called so, where one is named.
    ///
    /// # Errors
    /// This node may not work with it, or has not its key file; it is away, or damaged.
    fn backup_points(
        &self,
        repository: &BackupRepository,
        volume: Option<&str>,
    ) -> Result<Vec<BackupPointFound>, Problem> {
        let _ = volume;
        Err(opens_none(repository))
    }

    /// Asks the other end of a mirror what it is, now. None: it cannot be asked from here.
    ///
    /// # Errors
    /// It gives no answer at all (`not-in-time`); or it refuses, or what it says cannot be believed.
    fn look_at_mirror(&self, mirror: &Mirror) -> Option<Result<Standing, Problem>> {
        let _ = mirror;
        None
    }

    /// Asks the end that a mirror is joined at what it is: who answers is that cluster, and lets this one in by the token.
    ///
    /// # Errors
    /// It cannot be asked from here; it gives no answer at all (`not-in-time`), or refuses; or what it says cannot be believed.
    fn look_at_near_end(&self, near: &MirrorBootstrap) -> Result<MirrorLink, Problem> {
        Err(asks_nobody(near))
    }

    /// Tells that end how this one is reached.
    ///
    /// # Errors
    /// As [`DataPath::look_at_near_end`].
    fn tell_near_end(&self, near: &MirrorBootstrap, told: &MirrorPeerTold) -> Result<(), Problem> {
        let _ = told;
        Err(asks_nobody(near))
    }
}

fn opens_none(repository: &BackupRepository) -> Problem {
    let why = format!(
        "this node opens no repositories, and so not {}; ask another one",
        repository.name
    );
    Problem::new(Code::Misdirected, why)
}

fn asks_nobody(near: &MirrorBootstrap) -> Problem {
    let why = format!(
        "this node asks no other cluster, and mirror {} is joined by asking cluster {}",
        near.name, near.cluster
    );
    Problem::new(Code::WrongState, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn only_an_image_is_read_as_it_comes() {
        for (method, path, is) in [
            ("PUT", "/api/v1/volumes/db/data", true),
            ("PUT", "/api/v1/volumes/a%2Fb/data?as_it_is=true", true),
            ("POST", "/api/v1/volumes/db/data", false),
            ("PUT", "/api/v1/volumes//data", false),
            ("PUT", "/api/v1/volumes/data", false),
            ("PUT", "/api/v1/volumes/db/x/data", false),
            ("PUT", "/volumes/db/data", false),
            ("PUT", "/api/v1/nbd-exports/db", false),
        ] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            assert_eq!(is_stream(&request), is, "{method} {path}");
        }
    }
}
