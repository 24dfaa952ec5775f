//! s2n-tls, with its input and output in our boxes.
//!
//! The library is written in C and calls back for input and output, with a pointer that it was given. That is all the
//! `unsafe` there is: the pointer leads to an [`Io`] that lives as long as the connection, and what the `Io` points to is
//! set at the beginning of a call into the library and cleared at its end; the library calls back only in between.
#![allow(unsafe_code)]

use super::derive::Psk;
use amita_keys::Hash;
use amita_reactor::{Outbox, Pool};
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, Mode, PskHmac};
use s2n_tls::error::{Error, ErrorType};
use s2n_tls::security::Policy;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::task::Poll;

/// TLS 1.3 only, with the two cipher suites that NVMe/TCP demands (and ChaCha20, which is refused afterwards), and
/// groups x25519, P-256, P-384 and P-521. Policies are named and never change.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3-2023";

/// What the library reads from and writes to, while it is called.
struct Io {
    input: *const u8,
    input_bytes: usize,
    taken: usize,
    output: *mut Outbox,
    pool: *const Pool,
}

/// An [`Io`] of its own allocation: its address never changes.
struct IoPointer(NonNull<Io>);

impl IoPointer {
    fn new() -> IoPointer {
        let io = Box::new(Io {
            input: ptr::null(),
            input_bytes: 0,
            taken: 0,
            output: ptr::null_mut(),
            pool: ptr::null(),
        });
        IoPointer(NonNull::from(Box::leak(io)))
    }
}

impl Drop for IoPointer {
    fn drop(&mut self) {
        // SAFETY: it comes from the box that was leaked in `new`, and nobody else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A connection of the library.
pub(super) struct Library {
    // Dropped in this order: the library's connection knows the address of the other.
    connection: Connection,
    io: IoPointer,
}

fn would_block() -> c_int {
    // SAFETY: the address of this thread's error number is valid.
    unsafe { *libc::__errno_location() = libc::EAGAIN };
    -1
}

unsafe extern "C" fn receive(context: *mut c_void, buffer: *mut u8, bytes: u32) -> c_int {
    // SAFETY: the context is the address of the connection's `Io`, which lives as long as the connection, and nobody has
    // a reference to it while the library is called.
    let io = unsafe { &mut *context.cast::<Io>() };
    let count = (io.input_bytes - io.taken).min(bytes as usize).min(c_int::MAX as usize);
    if count == 0 {
        return would_block();
    }
    // SAFETY: `input` has `input_bytes` bytes for the time of the call (`Library::call`), of which `taken` are behind us;
    // the library's buffer has `bytes`, and is its own.
    unsafe { ptr::copy_nonoverlapping(io.input.add(io.taken), buffer, count) };
    io.taken += count;
    count as c_int
}

unsafe extern "C" fn send(context: *mut c_void, buffer: *const u8, bytes: u32) -> c_int {
    // SAFETY: as in `receive`.
    let io = unsafe { &mut *context.cast::<Io>() };
    let (Ok(count), false) = (c_int::try_from(bytes), io.output.is_null()) else {
        return would_block();
    };
    // SAFETY: outbox and pool are borrowed by `Library::call` for the time of the call; the library's buffer has `bytes`.
    unsafe { (*io.output).append(&*io.pool, std::slice::from_raw_parts(buffer, bytes as usize)) };
    count
}

/// What all connections share: made once.
fn config() -> Result<Config, Error> {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut builder = Config::builder();
    builder.with_system_certs(false)?;
    builder.set_security_policy(&Policy::from_version(POLICY)?)?;
    let config = builder.build()?;
    Ok(CONFIG.get_or_init(|| config).clone())
}

impl Library {
    /// A connection that knows this key and no other.
    pub fn new(mode: Mode, psk: &Psk) -> Result<Library, Error> {
        let mut builder = s2n_tls::psk::Psk::builder()?;
        builder.set_identity(psk.identity.to_string().as_bytes())?;
        builder.set_secret(&psk.secret)?;
        builder.set_hmac(match psk.identity.hash {
            Hash::Sha256 => PskHmac::SHA256,
            Hash::Sha384 | Hash::Sha512 => PskHmac::SHA384,
        })?;
        let mut connection = Connection::new(mode);
        connection.set_config(config()?)?;
        // After a failure the library would have the caller wait for a random time, against attacks on ciphers that
        // are not among these.
        connection.set_blinding(Blinding::SelfService)?;
        connection.append_psk(&builder.build()?)?;
        let io = IoPointer::new();
        let context = io.0.as_ptr().cast::<c_void>();
        connection.set_receive_callback(Some(receive))?;
        connection.set_send_callback(Some(send))?;
        // SAFETY: the context lives in this struct, behind the connection, and is dropped after it.
        unsafe {
            connection.set_receive_context(context)?;
            connection.set_send_context(context)?;
        }
        Ok(Library { connection, io })
    }

    /// Calls the library with that input, of which it takes what comes back, and that output.
    fn call<T>(
        &mut self,
        input: &[u8],
        output: &mut Outbox,
        pool: &Pool,
        calls: impl FnOnce(&mut Connection) -> T,
    ) -> (T, usize) {
        let io = self.io.0.as_ptr();
        // SAFETY: the `Io` lives, and the library, which has its address too, uses it only when it is called.
        unsafe {
            *io = Io {
                input: input.as_ptr(),
                input_bytes: input.len(),
                taken: 0,
                output,
                pool,
            };
        }
        let result = calls(&mut self.connection);
        // SAFETY: as above.
        let done = unsafe {
            ptr::replace(
                io,
                Io {
                    input: ptr::null(),
                    input_bytes: 0,
                    taken: 0,
                    output: ptr::null_mut(),
                    pool: ptr::null(),
                },
            )
        };
        (result, done.taken)
    }

    /// Goes on with the handshake: is it complete? With the bytes taken.
    pub fn negotiate(&mut self, input: &[u8], output: &mut Outbox, pool: &Pool) -> (Result<bool, Error>, usize) {
        let (result, taken) = self.call(input, output, pool, |connection| match connection.poll_negotiate() {
            Poll::Ready(Ok(_)) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        });
        (result, taken)
    }

    /// Decrypts a record at most into `plain`; `None`: there is none yet. 0 bytes: the peer has closed.
    pub fn receive(
        &mut self,
        input: &[u8],
        plain: &mut [u8],
        output: &mut Outbox,
        pool: &Pool,
    ) -> (Result<Option<usize>, Error>, usize) {
        let (result, taken) = self.call(input, output, pool, |connection| match connection.poll_recv(plain) {
            Poll::Ready(Ok(bytes)) => Ok(Some(bytes)),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(None),
        });
        (result, taken)
    }

    /// Encrypts all of `plain`.
    pub fn send(&mut self, plain: &[u8], output: &mut Outbox, pool: &Pool) -> Result<(), Error> {
        let mut rest = plain;
        while !rest.is_empty() {
            match self.call(&[], output, pool, |connection| connection.poll_send(rest)).0 {
                Poll::Ready(Ok(bytes)) => rest = &rest[bytes..],
                Poll::Ready(Err(error)) => return Err(error),
                // The outbox takes everything, so that this does not come.
                Poll::Pending => return Err(Error::io_error(std::io::ErrorKind::WouldBlock.into())),
            }
        }
        Ok(())
    }

    /// Tells the peer that nothing follows.
    pub fn close(&mut self, output: &mut Outbox, pool: &Pool) {
        let _ = self.call(&[], output, pool, |connection| {
            connection.poll_shutdown_send().is_ready()
        });
    }

    /// Has the library kept plaintext that did not fit?
    pub fn holds_plaintext(&self) -> bool {
        self.connection.peek_len() > 0
    }

    /// Gives back the memory of records, until the next one.
    pub fn release(&mut self) {
        // It refuses while something is in them; then they are needed.
        let _ = self.connection.release_buffers();
    }

    /// Renews the keys of what is sent with the next record.
    #[cfg(test)]
    pub fn renew_keys(&mut self) {
        let peer = s2n_tls::enums::PeerKeyUpdate::KeyUpdateNotRequested;
        self.connection.request_key_update(peer).expect("keys can be renewed");
    }

    /// The cipher suite, and the identity of the key that was used.
    pub fn outcome(&self) -> Result<(String, Vec<u8>), Error> {
        let suite = self.connection.cipher_suite()?.to_owned();
        let mut identity = vec![0; self.connection.negotiated_psk_identity_length()?];
        if !identity.is_empty() {
            self.connection.negotiated_psk_identity(&mut identity)?;
        }
        Ok((suite, identity))
    }
}

/// What went wrong, in words for a log.
pub(super) fn describe(error: &Error) -> String {
    match error.kind() {
        ErrorType::Alert => "the peer has ended the handshake by an alert".into(),
        _ => format!("{} ({})", error.message(), error.name()),
    }
}
