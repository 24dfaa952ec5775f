//! The things that have no safe way: the state of the kernel's clock, and what disks say of themselves.
#![allow(unsafe_code)]

use crate::collect::ScsiAsk;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Does the kernel hold its clock for synchronised?
///
/// # Errors
/// The kernel does not say.
pub fn is_clock_synchronised() -> Result<bool, String> {
    // SAFETY: all bytes zero is a value of this structure of integers; with no mode set, the kernel only fills it in.
    let status = unsafe {
        let mut state: libc::timex = std::mem::zeroed();
        match libc::adjtimex(&raw mut state) {
            -1 => return Err(std::io::Error::last_os_error().to_string()),
            _ => state.status,
        }
    };
    Ok(status & libc::STA_UNSYNC == 0)
}

/// `struct nvme_admin_cmd` of Linux (`include/uapi/linux/nvme_ioctl.h`).
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<AdminCommand>() == 72);

/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const ADMIN_COMMAND: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;
/// How long a disk may take to answer.
const TIMEOUT_MS: u32 = 2000;

/// What is asked of a disk. Nothing else can be: both only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Get Log Page (02h), page 02h: 512 bytes.
    HealthLog,
    /// Identify (06h), CNS 01h: the controller's 4,096 bytes.
    Controller,
}

/// Asks an NVMe disk.
///
/// # Errors
/// Who asks may not, or the disk refuses.
pub fn ask_nvme(disk: BorrowedFd<'_>, ask: Ask) -> Result<Vec<u8>, String> {
    let (opcode, namespace, cdw10, bytes) = match ask {
        // The number of double words, less one, and the page; of all namespaces.
        Ask::HealthLog => (0x02, u32::MAX, (127 << 16) | 0x02, 512),
        Ask::Controller => (0x06, 0, 0x01, 4096),
    };
    let mut data = vec![0_u8; bytes];
    let mut command = AdminCommand {
        opcode,
        namespace,
        address: data.as_mut_ptr() as u64,
        data_bytes: bytes as u32,
        cdw10,
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the command has the kernel's layout, and its address is that of `data`, which has the length that it says and lives on.
    let done = unsafe { libc::ioctl(disk.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    match done {
        0 => Ok(data),
        -1 => Err(std::io::Error::last_os_error().to_string()),
        status => Err(format!("the disk refuses with status {status:#x}")),
    }
}

/// `struct sg_io_hdr` of Linux (`include/scsi/sg.h`).
#[repr(C)]
struct ScsiHeader {
    interface: libc::c_int,
    direction: libc::c_int,
    command_bytes: u8,
    sense_most: u8,
    vectors: u16,
    data_bytes: u32,
    data: *mut libc::c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack: libc::c_int,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    left_bytes: libc::c_int,
    duration_ms: u32,
    info: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ScsiHeader>() == 88);

/// `SG_IO`.
const SCSI_COMMAND: libc::Ioctl = 0x2285;
/// `SG_DXFER_NONE` and `SG_DXFER_FROM_DEV`.
const DIRECTIONS: (libc::c_int, libc::c_int) = (-1, -3);
/// The most sense data that is taken.
const SENSE_BYTES: usize = 64;

/// What a SCSI disk has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiAnswer {
    /// The status of SAM-6: 0 is good, 2 is that there is sense data.
    pub status: u8,
    /// What it has sent.
    pub data: Vec<u8>,
    /// Why, where it has not done it; and what an ATA disk has in its registers.
    pub sense: Vec<u8>,
}

/// Asks a disk that the kernel takes for a SCSI one.
///
/// # Errors
/// Who asks may not, or nothing has answered in time.
pub fn ask_scsi(disk: BorrowedFd<'_>, ask: ScsiAsk) -> Result<ScsiAnswer, String> {
    let command = ask.command();
    let mut data = vec![0_u8; ask.bytes()];
    let mut sense = vec![0_u8; SENSE_BYTES];
    let mut header = ScsiHeader {
        interface: libc::c_int::from(b'S'),
        direction: if data.is_empty() { DIRECTIONS.0 } else { DIRECTIONS.1 },
        command_bytes: command.len() as u8,
        sense_most: SENSE_BYTES as u8,
        vectors: 0,
        data_bytes: data.len() as u32,
        data: data.as_mut_ptr().cast(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_bytes: 0,
        host_status: 0,
        driver_status: 0,
        left_bytes: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the header has the kernel's layout; the command, the data and the sense data are vectors that live on, with the lengths
    // that the header says, and of the command is only read.
    let done = unsafe { libc::ioctl(disk.as_raw_fd(), SCSI_COMMAND, &raw mut header) };
    if done != 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    if header.host_status != 0 {
        return Err(format!("nothing answers (host status {:#x})", header.host_status));
    }
    let left = usize::try_from(header.left_bytes).unwrap_or(0);
    data.truncate(data.len().saturating_sub(left));
    sense.truncate(usize::from(header.sense_bytes));
    Ok(ScsiAnswer {
        status: header.status,
        data,
        sense,
    })
}
