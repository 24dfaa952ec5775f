//! A volume of a point is poured into a volume of a cluster, whoever has asked for it: an operator by `amita backup restore`, or a task.
//!
//! How far it is stands in the metadata, with the volume, as an import's place does.

use super::by::By;
use super::failure::{Described as _, carried};
use super::points::{self, Which};
use crate::admin::Described as _;
use crate::commands::volume::data::{Data, Way};
use crate::commands::volume::ended::Ended;
use amita_backup::{Error, Reader, Session, Sink, Vault};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::ProgressBar;
use amita_types::map::{Import, Volume};
use std::io;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often the place is noted: what a restore loses when its machine does.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// What is restored.
pub struct What {
    pub point: u64,
    /// What the point is called, and when it was taken, in seconds since 1970.
    pub point_name: String,
    pub taken_at: u64,
    /// Which of its volumes.
    pub index: usize,
    /// What that was called.
    pub name: String,
    pub bytes: u64,
    /// It was encrypted at rest.
    pub encrypted: bool,
    /// By which a restore of it that was interrupted is known.
    pub mark: Import,
}

impl What {
    /// The point and the volume that are meant: the one of that name, or the only one.
    ///
    /// # Errors
    /// There is none; or the point has several, and none is named.
    pub fn find(vault: &Vault, which: Which, name: Option<&str>) -> Result<What> {
        let (point, found) = which.find(vault.state(), name)?;
        let names = || {
            let names = found.volumes.iter().map(|volume| volume.identity.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let index = match name {
            Some(name) => points::place(found, name).ok_or_else(|| {
                Failure::new(format!("point {point} has no volume {name}: it has {}", names())).kind(Kind::NotFound)
            })?,
            None if found.volumes.len() == 1 => 0,
            None => {
                return Err(Failure::new(format!("point {point} has several volumes: {}", names()))
                    .kind(Kind::Usage)
                    .advice("Say which: --volume NAME."));
            }
        };
        let volume = &found.volumes[index];
        let taken_at = u64::try_from(found.time).unwrap_or(0);
        Ok(What {
            point,
            point_name: found.name.clone(),
            taken_at,
            index,
            name: volume.identity.name.clone(),
            bytes: volume.bytes,
            encrypted: volume.encrypted,
            mark: Import {
                format: format!("backup {} point {point} volume {index}", vault.id()),
                image_bytes: volume.bytes,
                modified_ns: taken_at.saturating_mul(1_000_000_000).max(1),
                done_bytes: 0,
                ails: None,
                attempt: None,
            },
        })
    }
}

/// What is read, and what keeps it from being pruned meanwhile, where that can be.
pub enum Held<'a> {
    Session(Box<Session<'a>>),
    Alone(&'a Vault),
}

impl Held<'_> {
    pub fn reader(&self, what: &What) -> Result<Reader<'_>> {
        match self {
            Held::Session(session) => session.reader(what.point, what.index),
            Held::Alone(vault) => vault.reader(what.point, what.index),
        }
        .described()
    }
}

/// Does it under a session of this name. A repository that cannot be written is read all the same.
///
/// # Errors
/// What `work` says; or the vault is damaged.
pub fn held<T>(vault: &mut Vault, name: &str, work: impl FnOnce(&Held<'_>) -> Result<T>) -> Result<T> {
    let why = match vault.begin(name) {
        Ok(session) => {
            let held = Held::Session(Box::new(session));
            let done = work(&held);
            if let Held::Session(session) = held
                && let Err(why) = session.end()
            {
                log::warn!("the repository: {why}; the session of this restore stays open");
            }
            return done;
        }
        Err(why @ Error::Store { .. }) => why,
        Err(why) => return Err(why).described(),
    };
    log::warn!("{why}; so what is restored is not kept from being pruned meanwhile");
    work(&Held::Alone(vault))
}

/// A volume that is filled.
struct Pouring<'a> {
    data: Data,
    volume: &'a Volume,
    import: Import,
    meta: &'a dyn Transact,
    noted: Instant,
    bar: ProgressBar,
    written_bytes: u64,
}

impl Pouring<'_> {
    fn note(&mut self, done: u64) -> std::result::Result<(), AdminError> {
        self.noted = Instant::now();
        self.import.done_bytes = done.max(self.import.done_bytes);
        admin::note_import(self.meta, self.volume, &self.import).map(drop)
    }

    /// `done`: all before has been given to the volume.
    fn passed(&mut self, done: u64) -> Result<()> {
        interrupt::check()?;
        self.bar.set_position(done);
        match self.noted.elapsed() > NOTE_EVERY {
            true => self.note(self.data.place().unwrap_or(done)).described(),
            false => Ok(()),
        }
    }
}

impl Sink for Pouring<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.data.write(offset, bytes).map_err(carried)?;
        self.written_bytes += bytes.len() as u64;
        self.passed(offset + bytes.len() as u64).map_err(carried)
    }

    fn zeros(&mut self, offset: u64, length: u64) -> io::Result<()> {
        // What was never written, or was cleared, has nothing but zeros.
        self.passed(offset + length).map_err(carried)
    }
}

/// Gives on nothing that comes once the work is to end. What is read may come hours later, out of a folder that did not answer: by then another node may
/// have filled the volume, and hosts write to it.
struct Wanted<'a, S>(&'a mut S);

impl<S: Sink> Sink for Wanted<'_, S> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        interrupt::check().map_err(carried)?;
        self.0.write(offset, bytes)
    }

    fn zeros(&mut self, offset: u64, length: u64) -> io::Result<()> {
        interrupt::check().map_err(carried)?;
        self.0.zeros(offset, length)
    }
}

/// Fills the volume from where its import is: how much was written.
///
/// # Errors
/// It cannot be read or written, or is to end: how far it has come is noted.
pub fn into_volume(
    held: &Held<'_>,
    what: &What,
    (volume, import): (&Volume, Import),
    way: &Way,
    by: &By<'_>,
    bar: &ProgressBar,
) -> std::result::Result<u64, Ended> {
    // One action, however long it takes: how far it is stands in the volume's record, and not in the audit log.
    by.act(Action::VolumeImport, &volume.name, |meta| {
        let mut data = way.open(&volume.name).map_err(Ended::Copy)?;
        // It may have waited for long, as a piece may.
        interrupt::check().map_err(Ended::Copy)?;
        // From here on nobody says how far it is who had the volume before, and has stood still since.
        let import = admin::take_import(meta, volume, &import, Uuid::new_v4())?;
        let from = import.done_bytes;
        if from > 0 {
            data.clear(from).map_err(Ended::Copy)?;
        }
        let mut pouring = Pouring {
            data,
            volume,
            import,
            meta,
            noted: Instant::now(),
            bar: bar.clone(),
            written_bytes: 0,
        };
        let restore = |pouring: &mut Pouring<'_>| {
            held.reader(what)?
                .restore(from, what.bytes - from, &mut Wanted(pouring))
                .described()?;
            pouring.data.finish()
        };
        let restored = restore(&mut pouring);
        let noted = match restored {
            Ok(()) => Ok(()),
            Err(_) => pouring.note(pouring.data.place().unwrap_or(0)),
        };
        let (written, import) = (pouring.written_bytes, pouring.import);
        pouring.data.close();
        match (restored, noted) {
            // It is not there in part: it is another one's, and perhaps whole.
            (Err(_), Err(why @ AdminError::ImportTaken { .. })) => return Err(Ended::Admin(why)),
            // The failure that is told is the first one.
            (restored, _) => restored.map_err(Ended::Copy)?,
        }
        admin::end_import(meta, volume, &import)?;
        Ok::<u64, Ended>(written)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct Given(Vec<u64>);

    impl Sink for Given {
        fn write(&mut self, offset: u64, _: &[u8]) -> io::Result<()> {
            self.0.push(offset);
            Ok(())
        }

        fn zeros(&mut self, offset: u64, _: u64) -> io::Result<()> {
            self.0.push(offset);
            Ok(())
        }
    }

    #[test]
    fn what_comes_once_the_work_is_to_end_is_not_written() {
        let ends = Rc::new(Cell::new(false));
        let told = Rc::clone(&ends);
        let _ending = interrupt::ending(move || told.get());
        let mut given = Given(Vec::new());
        let mut wanted = Wanted(&mut given);
        wanted.write(0, &[7]).unwrap();
        ends.set(true);
        wanted.write(4096, &[7]).unwrap_err();
        wanted.zeros(8192, 4096).unwrap_err();
        assert_eq!(given.0, [0]);
    }
}
