//! Images: files that hold what a disk holds, raw or as qcow2.
//!
//! What a file is, is told from its head: names lie. A file that is of some other format would be copied as it is if it were taken for
//! raw, and no machine could read the disk: such a file is refused.

use amita_terminal::error::{Context, Failure, Kind, Result};
use imago::file::File as ImageFile;
use imago::qcow2::Qcow2;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Mapping, PermissiveImplicitOpenGate, Storage,
    StorageOpenOptions,
};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// A format of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Byte for byte what the disk holds
    Raw,
    /// QEMU's format
    Qcow2,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
        }
    }
}

/// How much of a file's head is looked at.
const HEAD_BYTES: usize = 512;
const QCOW2_MAGIC: &[u8] = b"QFI\xfb";
/// Other formats: where their mark is, the mark, and their name.
const OTHERS: [(usize, &[u8], &str); 5] = [
    (0, b"KDMV", "VMDK"),
    (0, b"vhdxfile", "VHDX"),
    (0, b"conectix", "VHD"),
    (0, b"QED\0", "QED"),
    (0x40, &[0x7f, 0x10, 0xda, 0xbe], "VDI"),
];

/// What the head of a file says that it is.
///
/// # Errors
/// It is of a format that is not read here; in words.
pub fn detect(head: &[u8]) -> std::result::Result<Format, String> {
    if head.starts_with(QCOW2_MAGIC) {
        return Ok(Format::Qcow2);
    }
    let is = |at: usize, mark: &[u8]| head.get(at..at + mark.len()) == Some(mark);
    match OTHERS.iter().find(|(at, mark, _)| is(*at, mark)) {
        Some((_, _, name)) => Err(format!("it is a {name}, and only raw and qcow2 are read")),
        None => Ok(Format::Raw),
    }
}

/// What cannot be read of a qcow2, in words, and the files that it names.
fn look_at_qcow2(head: &[u8]) -> std::result::Result<bool, String> {
    let number = |at: usize| {
        head.get(at..at + 4)
            .map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let version = number(4).ok_or("it ends in its head")?;
    let backing = number(16).ok_or("it ends in its head")? != 0;
    if number(32) != Some(0) {
        return Err("it is encrypted; decrypt it with qemu-img convert first".to_owned());
    }
    match version {
        2 => Ok(backing),
        3 => {
            // The qcow2 specification, "Header": the lower half of the incompatible features, and the type of compression.
            let features = number(76).ok_or("it ends in its head")?;
            if features & 0b10 != 0 {
                return Err("it says that it is corrupt; repair it with qemu-img check -r all first".to_owned());
            }
            if features & 0b1000 != 0 && head.get(104) == Some(&1) {
                return Err(
                    "it is compressed with zstd, which is not read here; copy it with qemu-img convert first"
                        .to_owned(),
                );
            }
            Ok(backing || features & 0b100 != 0)
        }
        other => Err(format!("it is a qcow2 of version {other}, and only 2 and 3 are read")),
    }
}

/// An image that is read.
pub enum Source {
    Raw {
        file: File,
        size_bytes: u64,
    },
    Qcow2(Box<FormatAccess<ImageFile>>),
    /// Whoever writes it tells no size; the first bytes were looked at.
    Stream(Box<dyn Read>),
}

impl Source {
    /// Opens a file. With `follow` the files that it names are read too.
    ///
    /// # Errors
    /// It cannot be read, or is of a format that is not read here.
    pub fn open(path: &Path, format: Option<Format>, follow: bool) -> Result<(Source, Format)> {
        let shown = path.display();
        let file = File::open(path).context(|| format!("cannot read {shown}"))?;
        let facts = file.metadata().context(|| format!("cannot read {shown}"))?;
        if facts.is_dir() {
            return Err(unreadable(path, "it is a folder"));
        }
        let head = head_of(&file).context(|| format!("cannot read {shown}"))?;
        let format = match format {
            Some(format) => format,
            None => detect(&head).map_err(|why| {
                unreadable(path, &why).advice(
                    "`qemu-img convert -O qcow2` makes a qcow2 of it. --format raw copies it byte for byte, as it is.",
                )
            })?,
        };
        if format == Format::Raw {
            // The end of a device is found by going there; its length as a file is 0.
            let size_bytes = seek(&file, SeekFrom::End(0)).context(|| format!("cannot tell the size of {shown}"))?;
            return Ok((Source::Raw { file, size_bytes }, format));
        }
        if !head.starts_with(QCOW2_MAGIC) {
            return Err(unreadable(path, "it is no qcow2: its head does not say so"));
        }
        let names_others = look_at_qcow2(&head).map_err(|why| unreadable(path, &why))?;
        if names_others && !follow {
            return Err(unreadable(
                path,
                "it names another file, whose data is a part of it (a backing file, or one for its data)",
            )
            .advice(
                "--follow reads that too: for images whose maker you trust, because they can name any file of this machine. \
                 `qemu-img info` shows what it names; `qemu-img convert` makes one image of all.",
            ));
        }
        let failed = |why: std::io::Error| unreadable(path, &why.to_string());
        let storage = ImageFile::open(StorageOpenOptions::new().filename(path)).map_err(failed)?;
        let builder = Qcow2::<ImageFile>::builder(storage);
        let opened = match follow {
            true => builder.open(PermissiveImplicitOpenGate::default()),
            false => builder.open(DenyImplicitOpenGate::default()),
        };
        let image = opened.map_err(|why| unreadable(path, &why.to_string()))?;
        Ok((Source::Qcow2(Box::new(FormatAccess::new(image))), format))
    }

    /// The standard input.
    ///
    /// # Errors
    /// It cannot be read, or what comes is not raw.
    pub fn stdin(format: Option<Format>) -> Result<(Source, Format)> {
        Source::stream(Box::new(std::io::stdin()), format, "standard input")
    }

    /// What comes by a pipe, or by the network. `name` says to people what it is.
    ///
    /// # Errors
    /// It cannot be read, or what comes is not raw.
    pub fn stream(mut input: Box<dyn Read>, format: Option<Format>, name: &str) -> Result<(Source, Format)> {
        let refused = |what: &str| {
            Failure::new(format!("{name}: {what}")).kind(Kind::Usage).advice(
                "Only raw images can be read from a pipe: parts of others lie in any order. Write it to a file first.",
            )
        };
        if format == Some(Format::Qcow2) {
            return Err(refused("a qcow2 cannot be read from a pipe"));
        }
        let mut head = vec![0; HEAD_BYTES];
        let read = read_full(&mut input, &mut head).context(|| name.to_owned())?;
        head.truncate(read);
        if format.is_none() {
            match detect(&head) {
                Ok(Format::Raw) => {}
                Ok(Format::Qcow2) => return Err(refused("what comes is a qcow2")),
                Err(why) => return Err(refused(&why)),
            }
        }
        let stream = std::io::Cursor::new(head).chain(input);
        Ok((Source::Stream(Box::new(stream)), Format::Raw))
    }

    /// What a machine would see of it; `None`: nobody knows before its end.
    pub fn size_bytes(&self) -> Option<u64> {
        match self {
            Source::Raw { size_bytes, .. } => Some(*size_bytes),
            Source::Qcow2(image) => Some(image.size()),
            Source::Stream(_) => None,
        }
    }

    /// Is there data at `offset`, and up to where is it so?
    ///
    /// # Errors
    /// It cannot be read.
    pub fn extent(&self, offset: u64, end: u64) -> std::io::Result<(bool, u64)> {
        match self {
            Source::Raw { file, .. } => match seek(file, SeekFrom::Data(offset)) {
                Ok(data) if data > offset => Ok((false, data.min(end))),
                Ok(_) => Ok((true, seek(file, SeekFrom::Hole(offset)).unwrap_or(end).min(end))),
                Err(rustix::io::Errno::NXIO) => Ok((false, end)),
                // A device, or a file system that does not tell.
                Err(_) => Ok((true, end)),
            },
            Source::Qcow2(image) => {
                let (mapping, length) = image.get_mapping(offset, end - offset)?;
                let is_data = !matches!(mapping, Mapping::Zero { .. } | Mapping::Eof { .. });
                let length = if length == 0 { end - offset } else { length };
                Ok((is_data, offset + length))
            }
            Source::Stream(_) => Ok((true, end)),
        }
    }

    /// Reads what lies there; fewer bytes only at the end of a stream.
    ///
    /// # Errors
    /// It cannot be read, or has become shorter.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::Raw { file, .. } => file.read_exact_at(bytes, offset)?,
            Source::Qcow2(image) => image.read(&mut *bytes, offset)?,
            Source::Stream(stream) => return read_full(stream, bytes),
        }
        Ok(bytes.len())
    }
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::new(format!("{} cannot be imported: {why}", path.display())).kind(Kind::Unreadable)
}

/// When a file was changed last, in nanoseconds since 1970.
pub fn modified_ns(path: &Path) -> Result<u64> {
    let facts = std::fs::metadata(path).context(|| format!("cannot read {}", path.display()))?;
    Ok((facts.mtime() as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(facts.mtime_nsec() as u64))
}

fn head_of(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut read = 0;
    while read < head.len() {
        match file.read_at(&mut head[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    head.truncate(read);
    Ok(head)
}

/// Reads until the bytes are full, or there is no more.
fn read_full(from: &mut dyn Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match from.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_from_the_head() {
        assert_eq!(detect(b""), Ok(Format::Raw));
        assert_eq!(detect(&[0; 512]), Ok(Format::Raw));
        assert_eq!(detect(b"QFI\xfb\0\0\0\x03"), Ok(Format::Qcow2));
        assert!(detect(b"KDMV").is_err_and(|why| why.contains("VMDK")));
        let mut vdi = vec![0; 512];
        vdi[0x40..0x44].copy_from_slice(&[0x7f, 0x10, 0xda, 0xbe]);
        assert!(detect(&vdi).is_err_and(|why| why.contains("VDI")));
    }

    #[test]
    fn a_head_that_cannot_be_read_is_refused() {
        let head = |version: u32, features: u32| {
            let mut head = vec![0; 112];
            head[..4].copy_from_slice(QCOW2_MAGIC);
            head[4..8].copy_from_slice(&version.to_be_bytes());
            head[76..80].copy_from_slice(&features.to_be_bytes());
            head
        };
        assert_eq!(look_at_qcow2(&head(2, 0xff)), Ok(false), "version 2 has no features");
        assert_eq!(look_at_qcow2(&head(3, 0)), Ok(false));
        assert_eq!(look_at_qcow2(&head(3, 0b100)), Ok(true));
        assert!(look_at_qcow2(&head(3, 0b10)).is_err());
        assert!(look_at_qcow2(&head(4, 0)).is_err());
        assert!(look_at_qcow2(&head(3, 0)[..20]).is_err());
        let mut zstd = head(3, 0b1000);
        zstd[104] = 1;
        assert!(look_at_qcow2(&zstd).is_err_and(|why| why.contains("zstd")));
        let mut backed = head(3, 0);
        backed[19] = 1;
        assert_eq!(look_at_qcow2(&backed), Ok(true));
    }
}
