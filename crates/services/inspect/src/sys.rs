//! The two things that have no safe way: the state of the kernel's clock, and what an NVMe disk says of itself.
#![allow(unsafe_code)]

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
