//! The file: a page at the head, and three parts of pages of fixed size, each a ring over time.
//!
//! ```text
//! head   0 magic "AMITAHIS" | 8 version u32 | 12 CRC-32C of what follows, to 4096 | 16 page sizes 3 x u32
//!        28 the cluster, 16 bytes | 44 length u8, name of the node
//! page   0 magic "AHPG" | 4 CRC-32C of what follows, to its end | 8 length of the body u32 | 12 part u8, 3 bytes of nothing
//!        16 begin in seconds since 1970 u64 | 24 milliseconds covered u64 | 32 the body (`frame`)
//! ```
//!
//! All numbers are little-endian. A page is where its time puts it, so there is no index that could be wrong, and a page that says another
//! time than was looked for is an older one that was not written over yet. Nothing is flushed: after a power cut the last pages may be
//! missing or torn, and are passed over. The file is sparse until it was filled once.

use crate::frame::{self, Frame};
use crate::layout::{Layout, SLOTS, STEPS_S};
use crate::object::Object;
use crate::value::Figures;
use amita_types::ClusterId;
use amita_types::sum::crc32c;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"AMITAHIS";
const PAGE_MAGIC: &[u8; 4] = b"AHPG";
/// The form of the file. Another one is set aside.
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 4096;
/// The head of a page.
const PAGE_HEAD: usize = 32;
const MAX_NODE_BYTES: usize = 255;

/// Why there is no file of figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// It cannot be opened, made or read.
    #[error("{}: {why}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Another process writes it.
    #[error("{}: another process writes it; give each node a folder or a name of its own", .0.display())]
    Taken(PathBuf),
}

/// What was there.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened {
    /// Nothing.
    New,
    /// The figures of before.
    Kept,
    /// Something else, which is now at `aside`.
    SetAside {
        /// Where it is; what had been set aside before is gone.
        aside: PathBuf,
        /// Why it is not taken.
        why: String,
    },
}

/// The file, while it is open. Whoever reads does so beside the one that writes.
#[derive(Debug)]
pub struct Ring {
    file: File,
    path: PathBuf,
    layout: Layout,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut own = [0; N];
    own.copy_from_slice(&bytes[at..at + N]);
    own
}

fn head(layout: &Layout, cluster: ClusterId, node: &str) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (part, bytes) in layout.page_bytes.iter().enumerate() {
        head[16 + 4 * part..20 + 4 * part].copy_from_slice(&(*bytes as u32).to_le_bytes());
    }
    head[28..44].copy_from_slice(&cluster.0.to_le_bytes());
    let name = &node.as_bytes()[..node.len().min(MAX_NODE_BYTES)];
    head[44] = name.len() as u8;
    head[45..45 + name.len()].copy_from_slice(name);
    let sum = crc32c(&head[16..]);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The layout of a file that is this node's; else why it is not.
fn judge(head: &[u8; HEAD_BYTES], wanted: &[u8; HEAD_BYTES]) -> Result<Layout, String> {
    if &head[..8] != MAGIC {
        return Err("it is no file of figures".to_owned());
    }
    let version = u32::from_le_bytes(number(head, 8));
    if version != VERSION {
        return Err(format!("it has version {version}, and this program knows {VERSION}"));
    }
    if u32::from_le_bytes(number(head, 12)) != crc32c(&head[16..]) {
        return Err("its head is damaged".to_owned());
    }
    if head[28..] != wanted[28..] {
        return Err("it is another node's, or another cluster's".to_owned());
    }
    let page_bytes = [0, 1, 2].map(|part| u64::from(u32::from_le_bytes(number(head, 16 + 4 * part))));
    let layout = Layout { page_bytes };
    layout
        .is_possible()
        .then_some(layout)
        .ok_or_else(|| "its head says sizes that cannot be".to_owned())
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

impl Ring {
    /// Opens the file of a node, or makes it. One of another version, another node, or that is damaged, is set aside; one of another size
    /// is taken over, as far as its figures have room.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn open(path: &Path, layout: Layout, cluster: ClusterId, node: &str) -> Result<(Ring, Opened), RingError> {
        let wanted = head(&layout, cluster, node);
        let failed = |why| RingError::File {
            path: path.to_owned(),
            why,
        };
        let Some(file) = existing(path)? else {
            return Ring::make(path, layout, &wanted).map(|ring| (ring, Opened::New));
        };
        let mut found = [0; HEAD_BYTES];
        let judged = match file.read_exact_at(&mut found, 0) {
            Ok(()) => judge(&found, &wanted),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Err("it is cut off".to_owned()),
            Err(why) => return Err(failed(why)),
        };
        match judged {
            Ok(known) => {
                let ring = Ring {
                    file,
                    path: path.to_owned(),
                    layout: known,
                };
                if known == layout {
                    // What was cut off has no figures any more.
                    ring.file.set_len(layout.file_bytes()).map_err(failed)?;
                    return Ok((ring, Opened::Kept));
                }
                ring.resized(layout, &wanted).map(|ring| (ring, Opened::Kept))
            }
            Err(why) => {
                let aside = with_end(path, ".aside");
                std::fs::rename(path, &aside).map_err(failed)?;
                drop(file);
                let ring = Ring::make(path, layout, &wanted)?;
                Ok((ring, Opened::SetAside { aside, why }))
            }
        }
    }

    /// The head is written last: a file that has one is whole.
    fn make(path: &Path, layout: Layout, head: &[u8]) -> Result<Ring, RingError> {
        let failed = |why| RingError::File {
            path: path.to_owned(),
            why,
        };
        let file = options().create(true).truncate(true).open(path).map_err(failed)?;
        lock(&file, path)?;
        file.set_len(layout.file_bytes()).map_err(failed)?;
        file.write_all_at(head, 0).map_err(failed)?;
        Ok(Ring {
            file,
            path: path.to_owned(),
            layout,
        })
    }

    /// The same figures in a file of another size.
    fn resized(self, layout: Layout, head: &[u8]) -> Result<Ring, RingError> {
        let new = with_end(&self.path, ".new");
        let ring = Ring::make(&new, layout, head)?;
        let failed = |why| RingError::File { path: new.clone(), why };
        for part in 0..STEPS_S.len() {
            for slot in 0..SLOTS[part] {
                if let Some(frame) = self.in_slot(part, slot * STEPS_S[part]) {
                    ring.put(part, &frame).map_err(failed)?;
                }
            }
        }
        std::fs::rename(&new, &self.path).map_err(failed)?;
        Ok(Ring {
            path: self.path,
            ..ring
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is laid out.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes an interval to its place in a part.
    ///
    /// # Errors
    /// What the system says. What was in that place may be gone, and nothing else is.
    pub fn put(&self, part: usize, frame: &Frame) -> io::Result<()> {
        let bytes = self.layout.page_bytes[part] as usize;
        let body = frame.write(bytes - PAGE_HEAD);
        let mut page = vec![0; PAGE_HEAD];
        page[..4].copy_from_slice(PAGE_MAGIC);
        page[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        page[12] = part as u8;
        page[16..24].copy_from_slice(&frame.at.to_le_bytes());
        page[24..32].copy_from_slice(&frame.covered_ms.to_le_bytes());
        page.extend_from_slice(&body);
        let sum = crc32c(&page[8..]);
        page[4..8].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(&page, self.layout.offset(part, frame.at))
    }

    /// The objects that are wanted of the interval that began then; none: it was not kept, or its page is damaged.
    #[must_use]
    pub fn get(&self, part: usize, at: u64, wanted: &dyn Fn(&Object) -> bool) -> Option<Frame> {
        self.read(part, at, wanted).filter(|frame| frame.at == at)
    }

    fn in_slot(&self, part: usize, at: u64) -> Option<Frame> {
        self.read(part, at, &|_| true)
            .filter(|frame| self.layout.offset(part, frame.at) == self.layout.offset(part, at))
    }

    fn read(&self, part: usize, at: u64, wanted: &dyn Fn(&Object) -> bool) -> Option<Frame> {
        let mut page = vec![0; self.layout.page_bytes[part] as usize];
        self.file.read_exact_at(&mut page, self.layout.offset(part, at)).ok()?;
        if &page[..4] != PAGE_MAGIC || usize::from(page[12]) != part {
            return None;
        }
        let length = u32::from_le_bytes(number(&page, 8)) as usize;
        let end = PAGE_HEAD.checked_add(length).filter(|end| *end <= page.len())?;
        if u32::from_le_bytes(number(&page, 4)) != crc32c(&page[8..end]) {
            return None;
        }
        let objects: Vec<(Object, Figures)> = frame::read(&page[PAGE_HEAD..end], wanted)?;
        Some(Frame {
            at: u64::from_le_bytes(number(&page, 16)),
            covered_ms: u64::from_le_bytes(number(&page, 24)),
            objects,
        })
    }
}

/// For its owner alone: names of volumes are nobody else's affair.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn existing(path: &Path) -> Result<Option<File>, RingError> {
    match options().open(path) {
        Ok(file) => lock(&file, path).map(|()| Some(file)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(RingError::File {
            path: path.to_owned(),
            why,
        }),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), RingError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RingError::Taken(path.to_owned())),
        Err(TryLockError::Error(why)) => Err(RingError::File {
            path: path.to_owned(),
            why,
        }),
    }
}

#[cfg(test)]
mod tests;
