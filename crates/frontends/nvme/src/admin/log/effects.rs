//! What is supported, and what it does: log pages (00h), commands (05h), features (12h). Drawn from the same tables that the
//! commands themselves go by.

use super::super::feature::KNOWN;
use super::super::identify::COMMANDS_OF_NVM;
use super::super::page::Page;
use super::super::status::INVALID_IO_COMMAND_SET;
use super::ADMIN_OPCODES;
use crate::command::Status;

/// 256 entries of a dword.
pub(super) const EFFECTS_BYTES: usize = 1024;
const SUPPORTED: u32 = 1;
/// "LBCC": the content of logical blocks may change.
const CHANGES_BLOCKS: u32 = 1 << 1;
/// "Scope", of features: a namespace, a controller.
const SCOPE_NAMESPACE: u32 = 1 << 20;
const SCOPE_CONTROLLER: u32 = 1 << 21;

pub(super) fn supported(logs: &[u8]) -> Page {
    let mut page = Page::new(EFFECTS_BYTES);
    for log in logs {
        page.u32(usize::from(*log) * 4, SUPPORTED);
    }
    page
}

pub(super) fn commands(csi: u8) -> Result<Page, Status> {
    if csi != 0 {
        return Err(INVALID_IO_COMMAND_SET);
    }
    let mut page = Page::new(4096);
    for opcode in ADMIN_OPCODES {
        page.u32(usize::from(*opcode) * 4, SUPPORTED);
    }
    for (opcode, changes) in COMMANDS_OF_NVM {
        let effects = SUPPORTED | if changes { CHANGES_BLOCKS } else { 0 };
        page.u32(EFFECTS_BYTES + usize::from(opcode) * 4, effects);
    }
    Ok(page)
}

pub(super) fn features() -> Page {
    let mut page = Page::new(EFFECTS_BYTES);
    for known in KNOWN {
        let scope = if known.of_namespace {
            SCOPE_NAMESPACE
        } else {
            SCOPE_CONTROLLER
        };
        page.u32(usize::from(known.id) * 4, SUPPORTED | scope);
    }
    page
}
