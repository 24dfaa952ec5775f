//! Asymmetric namespace access (0Ch): which groups this controller reaches, and how.

use super::super::page::Page;
use crate::admin::scope::Scope;
use std::collections::BTreeMap;

const HEADER_BYTES: usize = 16;
const DESCRIPTOR_BYTES: usize = 32;

/// One group for each namespace, and when its state last changed; with `groups_only` ("RGO") the namespaces are left out.
pub(super) fn page(scope: &Scope, groups: &BTreeMap<u32, u64>, groups_only: bool) -> Page {
    let listed = u32::from(!groups_only);
    let each = DESCRIPTOR_BYTES + 4 * listed as usize;
    let count = scope.namespaces().count();
    let changes = scope.subsystem.as_ref().map_or(0, |subsystem| subsystem.ana_changes);
    let mut page = Page::new(HEADER_BYTES + count * each);
    page.u64(0, changes).u16(8, count as u16);
    for (index, namespace) in scope.namespaces().enumerate() {
        let at = HEADER_BYTES + index * each;
        let nsid = namespace.nsid;
        page.u32(at, nsid)
            .u32(at + 4, listed)
            .u64(at + 8, groups.get(&nsid).copied().unwrap_or(changes))
            .u8(at + 16, namespace.ana as u8);
        if !groups_only {
            page.u32(at + DESCRIPTOR_BYTES, nsid);
        }
    }
    page
}
