//! What a host is asked: its files, its tools, its disks. [`Linux`] is a real one; units have one that is made up.

use super::copied::{self, Copied};
use super::report::Registered;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The longest file that is read: those of sysfs have a page, `mountinfo` a line for each mount.
const MAX_FILE: u64 = 16 << 20;
/// Bytes at each end of a disk that are looked at.
const ENDS: u64 = 1 << 20;
/// So long an address may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A disk.
    Disk,
    /// Anything else.
    File,
}

/// How a program has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; -1: a signal has ended it.
    pub code: i32,
    /// What it has said on standard output.
    pub out: String,
    /// What it has said on standard error.
    pub err: String,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes: all, and those that who is not root may have yet; and those that are used.
    pub bytes: (u64, u64, u64),
    /// The same of inodes.
    pub inodes: (u64, u64, u64),
}

/// What is done about a reservation (persistent reservations of Linux, `linux/pr.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// This host is known by this key, whatever it was known by.
    Register(u64),
    /// This host, which is known by the first key, is known by the second.
    Replace(u64, u64),
    /// It writes, and nobody else (Write Exclusive; of a disk of SCSI: and who is registered).
    Hold(u64),
    /// The same in place of the holder of the second key, whose commands are aborted.
    Preempt(u64, u64),
    /// Nobody holds it, and nobody is known any more; only who is known can do that.
    Clear(u64),
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is so.
    Done,
    /// Another host has it, or this one is not known by that key.
    Conflict,
}

/// A disk that is taken, until it is dropped.
pub trait Claimed: Send {
    /// Has the kernel write what it keeps of the disk.
    ///
    /// # Errors
    /// As the kernel says.
    fn sync(&self) -> io::Result<()>;
}

/// It, of whichever machine.
pub type Claim = Box<dyn Claimed>;

impl Claimed for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A disk that is gone.
impl Claimed for () {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A host.
pub trait Machine: Send + Sync + 'static {
    /// What a file says.
    ///
    /// # Errors
    /// As the kernel says, here and below.
    fn read(&self, path: &str) -> io::Result<String>;
    /// The names of what lies in a folder.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn list(&self, path: &str) -> io::Result<Vec<String>>;
    /// Writes to a file that is there.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn write(&self, path: &str, text: &str) -> io::Result<()>;
    /// Writes a line to a device, and reads what it answers.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn exchange(&self, path: &str, line: &str) -> io::Result<String>;
    /// What lies there; none: nothing.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn kind(&self, path: &str) -> io::Result<Option<Kind>>;
    /// Makes a folder, with those above it; one that is there, is.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn make_folder(&self, path: &str) -> io::Result<()>;
    /// Makes an empty file; one that is there, is.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn make_file(&self, path: &str) -> io::Result<()>;
    /// Removes a file or an empty folder; what is not there, is not.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Runs a program to its end.
    ///
    /// # Errors
    /// It cannot be started.
    fn run(&self, tool: &str, words: &[&str]) -> io::Result<Ran>;
    /// The same with this on its standard input: what no other process of the machine is to read.
    ///
    /// # Errors
    /// It cannot be started.
    fn run_with(&self, tool: &str, words: &[&str], input: &str) -> io::Result<Ran>;
    /// Is nothing but zeros where file systems, tables of partitions and the like have their marks: in the first and in the last MiB of a disk?
    ///
    /// # Errors
    /// See [`Machine::read`]: also one byte of them cannot be read.
    fn is_blank(&self, device: &str) -> io::Result<bool>;
    /// Does anybody answer at this address?
    ///
    /// # Errors
    /// Nobody does, in a while.
    fn reach(&self, address: SocketAddr) -> io::Result<()>;
    /// Does a controller of NVMe/TCP answer at this address? The kernel of a machine takes connections for a process that is stopped, and whoever waits
    /// for the first word of that by `/dev/nvme-fabrics` keeps all others of this machine waiting.
    ///
    /// # Errors
    /// See [`Machine::reach`].
    fn greet(&self, address: SocketAddr) -> io::Result<()>;
    /// Has the kernel write what it keeps of the file system at a path.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn sync(&self, path: &str) -> io::Result<()>;
    /// Takes a disk, so that nobody mounts it or builds another disk on it meanwhile; none: somebody has, in whatever name space of mounts.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn claim(&self, device: &str) -> io::Result<Option<Claim>>;
    /// Holds a disk, so that no other one gets its name or its number where it goes away meanwhile. Whoever else uses it may.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn pin(&self, device: &str) -> io::Result<Claim>;
    /// Copies the first bytes of a disk.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn copy_start(&self, device: &str, bytes: u64) -> io::Result<Box<dyn Copied>>;
    /// What a discovery service says by its device (NVM Express Base Specification 2.1, 5.1.12.3.1).
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn discovery_log(&self, device: &str) -> io::Result<Vec<u8>>;
    /// How full the file system at a path is.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn space(&self, path: &str) -> io::Result<Space>;
    /// Does something about the reservation of a disk.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn reserve(&self, device: &str, what: Reserve) -> io::Result<Reserved>;
    /// Who is registered at a disk.
    ///
    /// # Errors
    /// See [`Machine::read`].
    fn registered(&self, device: &str) -> io::Result<Vec<Registered>>;
    /// Waits.
    fn pause(&self, time: Duration);
    /// The time that has passed since some moment, which stays; never less than before.
    fn now(&self) -> Duration;
}

/// The machine that the driver runs at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Machine for Linux {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
        // Paths of mounts may have any bytes; ours are text.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.sort();
        Ok(names)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn exchange(&self, path: &str, line: &str) -> io::Result<String> {
        let mut device = OpenOptions::new().read(true).write(true).open(path)?;
        // One write is one line.
        let written = device.write(line.as_bytes())?;
        if written != line.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "it was not taken whole"));
        }
        let mut answer = [0; 4096];
        let length = device.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    fn kind(&self, path: &str) -> io::Result<Option<Kind>> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Some(Kind::Folder)),
            Ok(found) if found.file_type().is_block_device() => Ok(Some(Kind::Disk)),
            Ok(_) => Ok(Some(Kind::File)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn make_file(&self, path: &str) -> io::Result<()> {
        OpenOptions::new().create(true).append(true).open(path).map(drop)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let removed = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir(path),
            Ok(_) => fs::remove_file(path),
            Err(why) => Err(why),
        };
        match removed {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn run(&self, tool: &str, words: &[&str]) -> io::Result<Ran> {
        Command::new(tool)
            .args(words)
            .env("LC_ALL", "C")
            .output()
            .map(|ran| told(&ran))
    }

    fn run_with(&self, tool: &str, words: &[&str], input: &str) -> io::Result<Ran> {
        let mut command = Command::new(tool);
        command.args(words).env("LC_ALL", "C");
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn()?;
        let mut stdin = child.stdin.take();
        // One that ends before it has read says why by its code. What is written is shorter than a pipe is: nobody waits.
        if let Some(stdin) = stdin.as_mut() {
            match stdin.write_all(input.as_bytes()) {
                Err(why) if why.kind() != io::ErrorKind::BrokenPipe => log::debug!("{tool} was not told all: {why}"),
                _ => {}
            }
        }
        drop(stdin);
        child.wait_with_output().map(|ran| told(&ran))
    }

    fn is_blank(&self, device: &str) -> io::Result<bool> {
        is_blank(File::open(device)?)
    }

    fn reach(&self, address: SocketAddr) -> io::Result<()> {
        TcpStream::connect_timeout(&address, ANSWER).map(drop)
    }

    fn greet(&self, address: SocketAddr) -> io::Result<()> {
        let mut socket = TcpStream::connect_timeout(&address, ANSWER)?;
        socket.set_write_timeout(Some(ANSWER))?;
        socket.set_read_timeout(Some(ANSWER))?;
        socket.write_all(&initialize_request())?;
        // Whoever wants TLS answers this by an alert, or by closing: that is an answer.
        match socket.read(&mut [0; 1]) {
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "it takes connections, and says nothing for {} s: is the node stopped?",
                        ANSWER.as_secs()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(path)?)?)
    }

    fn claim(&self, device: &str) -> io::Result<Option<Claim>> {
        // "If the block device is in use by the system (e.g., mounted), open() fails with the error EBUSY" (open(2)).
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device);
        match opened {
            Ok(disk) => Ok(Some(Box::new(disk))),
            Err(why) if why.raw_os_error() == Some(libc::EBUSY) => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn pin(&self, device: &str) -> io::Result<Claim> {
        Ok(Box::new(File::open(device)?))
    }

    fn copy_start(&self, device: &str, bytes: u64) -> io::Result<Box<dyn Copied>> {
        copied::copy(device, bytes)
    }

    fn discovery_log(&self, device: &str) -> io::Result<Vec<u8>> {
        super::discovery::read(device)
    }

    fn space(&self, path: &str) -> io::Result<Space> {
        let found = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space {
            bytes: (
                bytes(found.f_blocks),
                bytes(found.f_bavail),
                bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            ),
            inodes: (
                found.f_files,
                found.f_favail,
                found.f_files.saturating_sub(found.f_ffree),
            ),
        })
    }

    fn reserve(&self, device: &str, what: Reserve) -> io::Result<Reserved> {
        super::reservation::carry_out(device, what)
    }

    fn registered(&self, device: &str) -> io::Result<Vec<Registered>> {
        super::report::read(device)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now(&self) -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}

fn told(ran: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ran {
        code: ran.status.code().unwrap_or(-1),
        out: text(&ran.stdout),
        err: text(&ran.stderr),
    }
}

/// ICReq, the first PDU of a host, which wants no digests (NVMe/TCP Transport 1.0c, 3.6.2.2).
fn initialize_request() -> [u8; 128] {
    let mut bytes = [0; 128];
    (bytes[2], bytes[4]) = (128, 128);
    bytes
}

fn is_blank(mut disk: impl Read + Seek) -> io::Result<bool> {
    let size = disk.seek(SeekFrom::End(0))?;
    let mut piece = vec![0; usize::try_from(ENDS.min(size)).unwrap_or(0)];
    for at in [0, size - piece.len() as u64] {
        disk.seek(SeekFrom::Start(at))?;
        disk.read_exact(&mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_byte_at_either_end_is_something() {
        let size = 3 * ENDS as usize + 512;
        for (at, wanted) in [
            (0, false),
            (ENDS as usize - 1, false),
            (size - 1, false),
            (size / 2, true),
        ] {
            let mut disk = vec![0; size];
            disk[at] = 1;
            assert_eq!(is_blank(Cursor::new(disk)).ok(), Some(wanted), "{at}");
        }
        assert_eq!(is_blank(Cursor::new(vec![0; 512])).ok(), Some(true));
        assert_eq!(is_blank(Cursor::new(vec![7; 512])).ok(), Some(false));
        assert!(is_blank(File::open("/dev/null").expect("a device")).is_ok());
    }

    #[test]
    fn what_is_written_is_synced_and_what_is_no_disk_is_nobodys() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        Linux.sync(&path).expect("synced");
        Linux.sync(&format!("{path}/none")).expect_err("nothing is there");
        assert!(Linux.claim("/dev/null").expect("it opens").is_some());
        drop(Linux.pin("/dev/null").expect("it opens"));
        Linux
            .claim(&format!("{path}/none"))
            .map(|_| ())
            .expect_err("nothing is there");
    }

    #[test]
    fn a_tool_is_told_by_its_standard_input() {
        let ran = Linux.run_with("cat", &[], "open sesame").expect("it is started");
        assert_eq!((ran.code, ran.out.as_str()), (0, "open sesame"));
        // One that reads nothing ends as it does.
        let ran = Linux
            .run_with("sh", &["-c", "exit 2"], "open sesame")
            .expect("it is started");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        Linux.run_with("no-such-tool", &[], "").expect_err("it is not there");
    }

    #[test]
    fn who_listens_is_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        Linux.reach(address).expect("it listens");
        // Its kernel takes the connection, and nobody says a word.
        let why = Linux.greet(address).expect_err("it is as if it were stopped");
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        drop(listener);
        Linux.reach(address).expect_err("nobody listens");
        Linux.greet(address).expect_err("nobody listens");
    }

    #[test]
    fn who_answers_or_closes_is_there() {
        for closes in [false, true] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let gateway = std::thread::spawn(move || {
                let (mut socket, _) = listener.accept().expect("somebody comes");
                let mut request = [0; 128];
                socket.read_exact(&mut request).expect("a whole PDU");
                if !closes {
                    socket.write_all(&[1, 0, 128, 0, 128]).expect("an answer");
                }
                request
            });
            Linux.greet(address).expect("it is there");
            let request = gateway.join().expect("it was asked");
            assert_eq!(
                (request[0], request[2], request[4..8].to_vec()),
                (0, 128, vec![128, 0, 0, 0])
            );
        }
    }
}
