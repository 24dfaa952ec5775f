//! Capabilities in certificates out of any bytes. Used by `tests/fuzz.rs` on stable, and under libFuzzer by the target in `fuzz/`.
//!
//! What must hold: nothing panics, what is read is within its limits, and what is granted has one text only.

use amita_identity::capability::{MAX_BYTES, decode, encode};
use amita_types::capability::{Capability, Entry, Grant, MAX_ENTRIES, MAX_TENANT_BYTES, Rights, Scope};
use amita_types::{PoolId, VolumeId};

/// A capability of one entry, of all kinds of entries, and of as many as there may be.
pub fn capabilities() -> Vec<Vec<u8>> {
    let few = [Scope::Volume(VolumeId(7)), Scope::Pool(PoolId(1)), Scope::Tenant];
    let many: Vec<Scope> = (1..=64).map(|at| Scope::Volume(VolumeId(at << 40))).collect();
    let made = |tenant: &str, scopes: &[Scope]| {
        let rights = Rights::ALL;
        let entries = scopes.iter().map(|scope| Entry { scope: *scope, rights });
        let capability = Capability {
            made_s: 1_800_000_000,
            grant: Grant::new(tenant, entries.collect()).expect("sound"),
        };
        encode(&capability)
    };
    vec![made("", &few[..1]), made("acme", &few), made(&"t".repeat(63), &many)]
}

/// The octets of the extension.
pub fn capability(input: &[u8]) {
    let Ok(read) = decode(input) else { return };
    assert!(input.len() <= MAX_BYTES);
    assert_eq!(encode(&read), input, "one text");
    let grant = &read.grant;
    assert!(grant.tenant().len() <= MAX_TENANT_BYTES && grant.entries().len() <= MAX_ENTRIES);
    assert!(grant.entries().is_sorted_by(|one, next| one.scope < next.scope));
}
