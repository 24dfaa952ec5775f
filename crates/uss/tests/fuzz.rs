//! A bounded run of the fuzz targets on stable, without coverage: many sessions that a generator with a fixed seed makes.

#[path = "fuzz/mod.rs"]
mod fuzz;

/// Sessions; `AMITA_FUZZ_SESSIONS` sets another number.
const SESSIONS: u64 = 3000;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn nvme_sessions_that_go_wrong() {
    let sessions = std::env::var("AMITA_FUZZ_SESSIONS")
        .ok()
        .and_then(|text| text.parse().ok());
    for session in 0..sessions.unwrap_or(SESSIONS) {
        let mut state = session.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..8).for_each(|_| _ = next(&mut state));
        let length = next(&mut state) as usize % 600;
        let input: Vec<u8> = (0..length).map(|_| (next(&mut state) >> 32) as u8).collect();
        let result = std::panic::catch_unwind(|| fuzz::nvme(&input));
        assert!(result.is_ok(), "session {session} fails");
    }
}
