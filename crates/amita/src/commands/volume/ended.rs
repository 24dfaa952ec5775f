//! Why what fills a volume has not come to its end: it is one action to the audit log, of data and of records.

use amita_control::admin::AdminError;
use amita_terminal::error::Failure;
use std::fmt;

/// Why an import or a restore has not come to its end.
pub(crate) enum Ended {
    /// It could not be copied.
    Copy(Failure),
    /// The metadata has refused, or is away.
    Admin(AdminError),
}

impl From<AdminError> for Ended {
    fn from(why: AdminError) -> Ended {
        Ended::Admin(why)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Copy(why) => f.write_str(&why.what),
            Ended::Admin(why) => why.fmt(f),
        }
    }
}
