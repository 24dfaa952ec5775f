//! System calls that do not go through the ring: a leaf of small, safe wrappers.

use crate::buf::{BufMut, Segments};
use crate::driver::{LocalPeer, PathCounts};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The kernel takes at most this many pieces in one call (`UIO_MAXIOV`).
const MAX_VECTORS: usize = 1024;

/// A vector for inline writes, reused; empty between them.
#[derive(Default)]
pub(super) struct Vectors(Vec<libc::iovec>);

// SAFETY: its pointers mean something only inside `write_inline`, which clears them.
unsafe impl Send for Vectors {}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Fills `vectors` with the segments past their first `done` bytes, neighbours in memory as one, as many as the kernel
/// takes at once.
pub(super) fn vectors(data: &Segments, done: usize, vectors: &mut Vec<libc::iovec>) {
    let mut skip = done;
    for piece in data {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let rest = &piece[skip..];
        skip = 0;
        if let Some(last) = vectors.last_mut()
            && last.iov_base.addr() + last.iov_len == rest.as_ptr().addr()
        {
            last.iov_len += rest.len();
            continue;
        }
        if vectors.len() == MAX_VECTORS {
            return;
        }
        vectors.push(libc::iovec {
            iov_base: rest.as_ptr() as *mut libc::c_void,
            iov_len: rest.len(),
        });
    }
}

/// Writes an address in the kernel's form; returns its length.
pub(super) fn write_address(address: SocketAddr, storage: &mut libc::sockaddr_storage) -> libc::socklen_t {
    let start: *mut libc::sockaddr_storage = storage;
    match address {
        SocketAddr::V4(address) => {
            let form = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_storage` is large and aligned enough for every family's form.
            unsafe { start.cast::<libc::sockaddr_in>().write(form) };
            mem::size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(address) => {
            let form = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { start.cast::<libc::sockaddr_in6>().write(form) };
            mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

fn read_address(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    let start: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote this family's form, for which the storage is large and aligned enough.
            let form = unsafe { &*start.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(form.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(form.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let form = unsafe { &*start.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(form.sin6_addr.s6_addr);
            Ok(SocketAddr::new(IpAddr::V6(ip), u16::from_be(form.sin6_port)))
        }
        family => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("address of an unknown family {family}"),
        )),
    }
}

/// A stream socket for an address's family. It blocks, which the ring turns into waiting.
pub(super) fn stream_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: no memory involved; the new descriptor is nobody else's.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::socket(
            family,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
        ))?))
    }
}

pub(super) fn set_option(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let size = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    check(result).map(drop)
}

/// What a peer without a window is asked is repeated no further apart than 120 s (`TCP_RTO_MAX`): twice that, so that one question that was
/// lost is no silence, and a moment more.
const LONGEST_PAUSE: Duration = Duration::from_secs(250);
/// So many probes without an answer are a silence. Linux keeps them apart, by up to 120 s, for as long as the window stays shut, also when
/// they are answered: one of them, or its answer, may just be lost.
const UNANSWERED_PROBES: u8 = 2;

/// What the kernel tells of a connection's other end.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Segments that wait to be acknowledged.
    unacked: u32,
    has_window: bool,
    /// Probes of a shut window that were not answered.
    probes: u8,
    /// Since the last sign of life.
    heard: Duration,
}

impl Peer {
    /// For how long it has said nothing while it was asked.
    fn silence(self) -> Option<Duration> {
        let is_asked = self.unacked > 0 && (self.has_window || self.heard > LONGEST_PAUSE);
        (is_asked || self.probes >= UNANSWERED_PROBES).then_some(self.heard)
    }
}

/// For how long a TCP peer's machine has said nothing, while it is asked (tcp(7), `TCP_INFO`): by segments that wait to be acknowledged,
/// or, with a full window, by probes. A peer that has taken its window back acknowledges nothing new, and is asked more and more
/// seldom: its silence counts only when it is longer than any pause between two questions.
pub(super) fn unheard(socket: &impl AsRawFd) -> Option<Duration> {
    let (info, size) = tcp_info(socket)?;
    // Linux tells it since 5.4.
    let tells_window = size >= mem::offset_of!(libc::tcp_info, tcpi_rcv_wnd);
    let has_window = !tells_window || info.tcpi_snd_wnd > 0;
    // What comes without acknowledging anything new is a sign of life too.
    let heard = Duration::from_millis(info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv).into());
    let peer = Peer {
        unacked: info.tcpi_unacked,
        has_window,
        probes: info.tcpi_probes,
        heard,
    };
    peer.silence()
}

/// What the kernel has counted of the way of a TCP connection.
pub(super) fn path(socket: &impl AsRawFd) -> Option<PathCounts> {
    let (info, size) = tcp_info(socket)?;
    // Linux tells how much was sent since 4.6; what a kernel does not tell is zero.
    let tells_sent = size >= mem::offset_of!(libc::tcp_info, tcpi_delivery_rate);
    tells_sent.then_some(PathCounts {
        sent: info.tcpi_data_segs_out,
        resent: info.tcpi_total_retrans,
        doubled: info.tcpi_dsack_dups,
        round_trip_us: info.tcpi_rtt,
        // Before the first one it stands at its largest value.
        least_us: Some(info.tcpi_min_rtt).filter(|least| *least != u32::MAX).unwrap_or(0),
    })
}

/// What the kernel tells of a TCP connection, and how many bytes of it; `None`: it is none, or it is closed.
fn tcp_info(socket: &impl AsRawFd) -> Option<(libc::tcp_info, usize)> {
    // SAFETY: a plain structure for which zero is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut size = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the value outlives the call and is as long as said.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    check(result).ok()?;
    Some((info, size as usize))
}

pub(super) fn bind_and_listen(socket: &OwnedFd, address: SocketAddr, backlog: i32) -> io::Result<SocketAddr> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if address.port() != 0 {
        // The cores of a node share a port: the kernel spreads what comes over them. (Another process is looked for before.)
        set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    // SAFETY: a plain structure for which zero is a value.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = write_address(address, &mut storage);
    // SAFETY: the storage outlives the calls and is as long as said.
    unsafe {
        check(libc::bind(socket.as_raw_fd(), (&raw const storage).cast(), length))?;
        check(libc::listen(socket.as_raw_fd(), backlog))?;
        let mut length = mem::size_of_val(&storage) as libc::socklen_t;
        check(libc::getsockname(
            socket.as_raw_fd(),
            (&raw mut storage).cast(),
            &raw mut length,
        ))?;
    }
    read_address(&storage)
}

/// Lets so many connections wait at a socket that is bound, also at one that listens already.
pub(super) fn listen(socket: &OwnedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) }).map(drop)
}

/// Who is at the other end of a Unix socket.
pub(super) fn peer_process(socket: &OwnedFd) -> io::Result<LocalPeer> {
    // SAFETY: a plain structure for which zero is a value, and which is as long as said.
    let who = unsafe {
        let mut who: libc::ucred = mem::zeroed();
        let mut length = mem::size_of_val(&who) as libc::socklen_t;
        check(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        ))?;
        who
    };
    Ok(LocalPeer {
        user: who.uid,
        // Zero: a process of another PID namespace.
        process: u32::try_from(who.pid).unwrap_or_default(),
    })
}

pub(super) fn peer_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    // SAFETY: a plain structure for which zero is a value, and which is as long as said.
    unsafe {
        let mut storage: libc::sockaddr_storage = mem::zeroed();
        let mut length = mem::size_of_val(&storage) as libc::socklen_t;
        check(libc::getpeername(
            socket.as_raw_fd(),
            (&raw mut storage).cast(),
            &raw mut length,
        ))?;
        read_address(&storage)
    }
}

/// Who was at the other end of a connection, also when it has been reset since.
pub(super) fn former_peer(socket: &OwnedFd) -> io::Result<SocketAddr> {
    // The kernel gives as much as is asked for, and fails when its address is shorter than that.
    let forms = [
        mem::size_of::<libc::sockaddr_in6>(),
        mem::size_of::<libc::sockaddr_in>(),
    ];
    let mut failed = io::Error::from_raw_os_error(libc::ENOTCONN);
    for size in forms {
        // SAFETY: a plain structure for which zero is a value, and which is longer than said.
        unsafe {
            let mut storage: libc::sockaddr_storage = mem::zeroed();
            let mut length = size as libc::socklen_t;
            match check(libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERNAME,
                (&raw mut storage).cast(),
                &raw mut length,
            )) {
                Ok(_) => return read_address(&storage),
                Err(error) => failed = error,
            }
        }
    }
    Err(failed)
}

/// Takes a connection that waits, and closes it at once. It is called where one waits (it would block otherwise).
pub(super) fn accept_and_close(listener: &OwnedFd) -> io::Result<()> {
    // SAFETY: no memory involved; the new descriptor is nobody else's.
    let socket = unsafe {
        let flags = libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags,
        ))?)
    };
    drop(socket);
    Ok(())
}

/// Has the kernel show each packet that comes to a socket to that program first, and drop it where the program says 0. What a listener
/// accepts while it has one is given the same.
pub(super) fn attach_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    let size = mem::size_of_val(&program) as libc::socklen_t;
    // SAFETY: the kernel copies the program, which outlives the call and is as long as said, and checks it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size,
        )
    };
    check(result).map(drop)
}

/// Takes the program away again. It is an error when there was none.
pub(super) fn detach_filter(socket: &impl AsRawFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

/// Closes a connection at once: the other end is told that it is over, and the kernel keeps nothing of it.
pub(super) fn close_at_once(socket: OwnedFd) {
    reset_on_close(&socket);
    drop(socket);
}

/// Once it is closed, the other end is told that it is over, and the kernel keeps nothing of what it has not sent (socket(7),
/// `SO_LINGER` with a time of zero).
pub(super) fn reset_on_close(socket: &OwnedFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = mem::size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the value outlives the call. Where it fails, closing goes the usual way.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        )
    };
}

/// Ends both directions, and with them every operation under way on the socket.
pub(super) fn shutdown(socket: &OwnedFd) {
    // SAFETY: no memory involved. It fails where the connection is gone already, which is as good.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Owns a descriptor that the kernel returned by the ring.
pub(super) fn adopt(descriptor: i32) -> OwnedFd {
    assert!(descriptor >= 0, "a descriptor is not negative");
    // SAFETY: the completion of an accept hands over the descriptor, once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// A new event file (it counts, and can be waited for).
pub(super) fn event_file() -> io::Result<OwnedFd> {
    // SAFETY: no memory involved; the new descriptor is nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC))?)) }
}

/// A new event file for a thread that polls: reading it never blocks.
pub(super) fn event_file_to_poll() -> io::Result<OwnedFd> {
    // SAFETY: as above.
    unsafe {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        Ok(OwnedFd::from_raw_fd(check(libc::eventfd(0, flags))?))
    }
}

/// Takes what an event file that never blocks has counted.
pub(super) fn drain(event: &OwnedFd) {
    let mut count = 0u64;
    // SAFETY: eight bytes, as an event file gives them. It can fail only when there is nothing to take.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
}

/// Waits until a file is readable, but no longer than that; is it?
pub(super) fn wait_readable(file: &OwnedFd, longest: Duration) -> bool {
    let mut asked = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = libc::timespec {
        tv_sec: longest.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // SAFETY: one entry, and a time, both ours. What interrupts it is a reason to look, like anything else.
    unsafe { libc::ppoll(&raw mut asked, 1, &raw const limit, std::ptr::null()) > 0 }
}

/// Wakes whoever waits for the event file.
pub(super) fn signal(event: &OwnedFd) {
    let one = 1u64;
    // SAFETY: eight bytes, as an event file takes them. It can fail only when 2^64 - 1 wake-ups wait, which is awake.
    unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// Lets others run on this core.
pub(super) fn give_way() {
    // SAFETY: no memory involved.
    unsafe { libc::sched_yield() };
}

/// Takes an exclusive lock on a file, without waiting; false when another has it.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    // SAFETY: no memory involved.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Is the file in memory (tmpfs, ramfs, hugetlbfs)?
pub(super) fn is_in_memory(file: &File) -> io::Result<bool> {
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    // SAFETY: a plain structure for which zero is a value, written by the call.
    let kind = unsafe {
        let mut about: libc::statfs = mem::zeroed();
        check(libc::fstatfs(file.as_raw_fd(), &raw mut about))?;
        about.f_type as u64
    };
    Ok([libc::TMPFS_MAGIC as u64, libc::HUGETLBFS_MAGIC as u64, RAMFS_MAGIC].contains(&kind))
}

/// Size in bytes and logical sector of a block device.
pub(super) fn block_device(file: &File) -> io::Result<(u64, u32)> {
    // `BLKGETSIZE64` and `BLKSSZGET` of linux/fs.h.
    const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
    const BLKSSZGET: libc::Ioctl = 0x1268;
    let (mut size, mut sector) = (0u64, 0i32);
    // SAFETY: each call writes one number of the type that it is given.
    unsafe {
        check(libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut size))?;
        check(libc::ioctl(file.as_raw_fd(), BLKSSZGET, &raw mut sector))?;
    }
    Ok((size, sector.max(512) as u32))
}

/// What the kernel says of direct I/O on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectIo {
    /// Nothing: an older kernel, or a file system that does not tell.
    Unknown,
    /// That it goes through the cache all the same, though the file can be opened for it.
    Refused,
    /// That memory and offsets must be aligned so, in bytes.
    Aligned { memory: u32, offset: u32 },
}

/// How direct I/O on a file is to be done.
pub(super) fn direct_io(path: &Path) -> DirectIo {
    match direct_alignment(path) {
        None => DirectIo::Unknown,
        Some((0, _) | (_, 0)) => DirectIo::Refused,
        Some((memory, offset)) => DirectIo::Aligned { memory, offset },
    }
}

fn direct_alignment(path: &Path) -> Option<(u32, u32)> {
    // Since Linux 6.1.
    const STATX_DIOALIGN: u32 = 0x2000;
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a plain structure for which zero is a value, written by the call; the path outlives it.
    let about = unsafe {
        let mut about: libc::statx = mem::zeroed();
        check(libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            STATX_DIOALIGN,
            &raw mut about,
        ))
        .ok()?;
        about
    };
    let known = about.stx_mask & STATX_DIOALIGN != 0;
    known.then_some((about.stx_dio_mem_align, about.stx_dio_offset_align))
}

/// The mode of `fallocate` that punches a hole.
pub(super) const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Punches a hole into a file, inline.
pub(super) fn punch(file: RawFd, offset: u64, bytes: u64) -> io::Result<()> {
    loop {
        // SAFETY: no memory involved.
        match check(unsafe { libc::fallocate(file, PUNCH, offset as i64, bytes as i64) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

/// Allocates a file's first `bytes`, unwritten.
#[cfg(test)]
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as i64) }).map(drop)
}

/// Tells a block device that a range is not needed; returns when it knows.
pub(super) fn discard_device(device: &File, offset: u64, bytes: u64) -> io::Result<()> {
    // `BLKDISCARD` of linux/fs.h.
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [offset, bytes];
    loop {
        // SAFETY: the call reads two numbers, start and length.
        match check(unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, range.as_ptr()) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

/// A piece of a file as its file system has it (`struct fiemap_extent` of linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

const _: () = assert!(mem::size_of::<Extent>() == 56);

/// Extents that are asked for at once, at most.
pub(super) const EXTENTS: usize = 256;

/// `struct fiemap` of linux/fiemap.h with its extents.
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Is all of a file's first `bytes` allocated, written, and the file's own, so that a write in place changes nothing but
/// data? False also where a piece is of a kind that nothing is known of. Asks for `at_once` extents at a time.
pub(super) fn is_written_whole(file: &File, bytes: u64, at_once: usize) -> io::Result<bool> {
    // `FS_IOC_FIEMAP` of linux/fs.h.
    const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
    // `FIEMAP_EXTENT_LAST` says that no more follows, `FIEMAP_EXTENT_MERGED` that the file system has none of its own.
    const LAST: u32 = 0x1;
    const MERGED: u32 = 0x1000;
    let mut map = Box::new(ExtentMap {
        start: 0,
        length: 0,
        flags: 0,
        mapped: 0,
        room: at_once.clamp(1, EXTENTS) as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    });
    let mut covered = 0;
    while covered < bytes {
        let before = covered;
        (map.start, map.length, map.mapped) = (covered, bytes - covered, 0);
        // SAFETY: the call writes the extents for which the map says that there is room, and the map's own fields.
        check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) })?;
        let mapped = (map.mapped as usize).min(EXTENTS);
        if mapped == 0 {
            return Ok(false);
        }
        for extent in &map.extents[..mapped] {
            // Not yet written, shared, compressed, within the inode, on its way: all else is more than data in place.
            if extent.flags & !(LAST | MERGED) != 0 || extent.logical > covered {
                return Ok(false);
            }
            covered = covered.max(extent.logical.saturating_add(extent.length));
        }
        if covered == before || map.extents[mapped - 1].flags & LAST != 0 {
            break;
        }
    }
    Ok(covered >= bytes)
}

fn count(result: isize) -> io::Result<usize> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result as usize)
    }
}

/// Time since the machine was started, in nanoseconds, the time included in which it was suspended (`CLOCK_BOOTTIME`): what
/// others were promised runs out meanwhile. Read without entering the kernel, like the clock that stands still then.
pub(super) fn clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that it is given, which lives until then.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(told, 0, "Linux has had this clock for longer than rings");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that it is given, which lives until then.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if told == 0 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    } else {
        0
    }
}

/// Fills the buffer from a file, inline. With `only_cached` it gives up (`WouldBlock`) where the file's cache does not
/// have it all.
pub(super) fn read_inline(file: RawFd, offset: u64, buffer: &mut BufMut, only_cached: bool) -> io::Result<()> {
    let flags = if only_cached { libc::RWF_NOWAIT } else { 0 };
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        let vector = libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        // SAFETY: the vector is the rest of a buffer that is ours alone.
        let read = count(unsafe { libc::preadv2(file, &raw const vector, 1, (offset + done as u64) as i64, flags) });
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all segments to a file, inline.
pub(super) fn write_inline(file: RawFd, offset: u64, data: &Segments, scratch: &mut Vectors) -> io::Result<()> {
    let total: usize = data.iter().map(|piece| piece.len()).sum();
    let mut done = 0;
    let mut result = Ok(());
    while done < total && result.is_ok() {
        scratch.0.clear();
        vectors(data, done, &mut scratch.0);
        let (start, pieces) = (scratch.0.as_ptr(), scratch.0.len() as i32);
        // SAFETY: the vectors point into segments that live beyond the call.
        match count(unsafe { libc::pwritev(file, start, pieces, (offset + done as u64) as i64) }) {
            Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => result = Err(error),
        }
    }
    scratch.0.clear();
    result
}

#[cfg(test)]
mod tests;
