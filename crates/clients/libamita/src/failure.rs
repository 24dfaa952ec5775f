//! What C is told of errors: an errno, and the last error of the thread in words.

use amita_client::{Error, IoError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// An errno (positive), and what happened, where, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Failure {
        Failure {
            code,
            text: text.into(),
        }
    }

    pub(crate) fn bad_handle(what: &str) -> Failure {
        let text = format!("this is no open {what}: it is NULL, or was closed, or is something else");
        Failure::new(libc::EBADF, text)
    }

    pub(crate) fn null(what: &str) -> Failure {
        Failure::new(libc::EINVAL, format!("{what} is NULL"))
    }

    pub(crate) fn other_thread(what: &str) -> Failure {
        let text = format!(
            "this is no open {what} of this thread; a client that is AMITA_INLINE, and what belongs to it, is used by the \
             thread that connected it alone"
        );
        Failure::new(libc::EBADF, text)
    }
}

impl From<Error> for Failure {
    fn from(why: Error) -> Failure {
        use amita_client::OpenError as Open;
        let code = match &why {
            Error::Setting { .. } | Error::OutOfRange { .. } | Error::Length { .. } | Error::NotCompared => {
                libc::EINVAL
            }
            Error::NoBase { .. }
            | Error::Open {
                why: Open::NotFound, ..
            } => libc::ENOENT,
            Error::Open {
                why: Open::Refused(_), ..
            } => libc::EBUSY,
            Error::Open { .. } => libc::EAGAIN,
            Error::OpenTimeout { .. } => libc::ETIMEDOUT,
            Error::NotOpen => libc::EBADF,
            Error::Lost { .. } => libc::ESTALE,
            Error::Full { .. } => libc::EAGAIN,
            Error::Ended => libc::ESHUTDOWN,
            Error::Join(_) => libc::ENOTCONN,
            _ => libc::EIO,
        };
        Failure::new(code, why.to_string())
    }
}

/// The errno of a request's end.
pub(crate) fn errno(why: IoError) -> c_int {
    match why {
        IoError::OutOfRange | IoError::Invalid => libc::EINVAL,
        IoError::NoSpace => libc::ENOSPC,
        IoError::ReadOnly => libc::EROFS,
        IoError::Lost => libc::ESTALE,
        IoError::Closed => libc::EACCES,
        IoError::Unavailable => libc::ENODEV,
        IoError::Damaged => libc::EBADMSG,
        IoError::Busy => libc::EAGAIN,
        _ => libc::EIO,
    }
}

/// A sentence for an errno of this library.
pub(crate) fn sentence(code: c_int) -> &'static CStr {
    match code.saturating_abs() {
        0 => c"no error",
        libc::EINVAL => c"the request, a setting or an argument cannot be so",
        libc::ENOSPC => {
            c"no space is left on a store that holds this part of the volume; add disks, or discard what is not needed"
        }
        libc::EROFS => c"it is open for reading only: a snapshot, or a volume that this client may only read",
        libc::ESTALE => c"the volume was taken over by another gateway, or closed; writes under way may have been done; open it again",
        libc::EACCES => c"the volume is closed to hosts: the other end of its mirror is written",
        libc::ENODEV => c"no copy of this part of the volume can be reached; bring a store that holds it back",
        libc::EBADMSG => c"no intact copy of this part of the volume was found, or the snapshot was deleted; see the nodes' logs",
        libc::EAGAIN => c"not now: too much is under way, or what it needs is away; try again",
        libc::ENOENT => c"there is no volume of that name, or no such snapshot of it",
        libc::EBUSY => c"in use: the volume by another gateway, or the queue by another thread",
        libc::ETIMEDOUT => c"it took too long; is the volume's owner, or the metadata, away?",
        libc::EBADF => c"the handle is NULL, closed, of another kind, or of another thread",
        libc::ESHUTDOWN => c"the client has ended; connect again",
        libc::ENOTCONN => c"the cluster cannot be joined; see amita_error()",
        libc::ENOMEM => c"the client's memory for I/O is used up; let requests end, and give buffers back",
        libc::ENOTSUP => c"a client of this kind cannot do that",
        libc::EIO => c"an I/O error",
        libc::ENOTRECOVERABLE => c"a fault of the library; the client cannot be used any more",
        _ => c"an error that this library does not use",
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the words for [`last`], and returns what C gets.
pub(crate) fn tell(failure: Failure) -> c_int {
    let text = failure.text.replace('\0', " ");
    let code = -failure.code.max(1);
    // While a thread ends, its words have nowhere to stay.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    code
}

/// The words of the last error of this thread.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
