//! What attempts note: whoever has the key, and for as long as that.

use super::ends::{Ends, Why};
use amita_control::admin::AdminError;
use amita_metadata::Error;
use std::time::Duration;

/// How soon it is tried again to note something while the metadata is away.
pub const AGAIN: Duration = Duration::from_secs(1);

/// The revision by which it is noted; none: another node is at it, or what it is of is gone.
///
/// # Errors
/// The metadata is away or refuses.
pub fn noted(told: Result<Option<u64>, AdminError>) -> Result<Option<u64>, Error> {
    match told {
        Ok(revision) => Ok(revision),
        Err(AdminError::Metadata(why)) => Err(why),
        Err(_) => Ok(None),
    }
}

/// Notes it for as long as this node has the key: is it noted? A try that nobody has answered may have been done: then the record is another one than is
/// compared. `read` reads the records anew, and says whether they say by now what was to be noted.
pub fn surely<P: Clone + PartialEq, R>(
    ends: &Ends<P>,
    records: &mut R,
    note: impl Fn(&mut R) -> Result<bool, Error>,
    read: impl Fn(&mut R) -> bool,
) -> bool {
    loop {
        if let Ok(noted) = note(records) {
            return noted;
        }
        std::thread::sleep(AGAIN);
        if matches!(ends.why(), Some(Why::Node | Why::Lost)) {
            return false;
        }
        if read(records) {
            return true;
        }
    }
}
