//! Who has key-encryption keys.
//!
//! A provider either does what it is asked at once, or has to ask somebody over the network: then it gives back the question, and whoever
//! called carries it there and brings the answer. So nothing in here does I/O, and the simulator can play who is asked.
//!
//! To *rotate* a key-encryption key is to unwrap with the old one and to wrap with the new one: the data key stays, and with it its check
//! value and every block.

pub mod kmip;
pub mod passphrase;
pub mod sealed_file;
pub mod transit;

mod local;

use crate::key::DataKey;
use crate::provider::kmip::KmipAsks;
use crate::provider::passphrase::BadPassphrase;
use crate::wrapped::{Binding, KeyError, WrappedKey};
use crate::wrapping::WrappingKey;
use amita_types::ClusterId;
use std::fmt;
use zeroize::Zeroizing;

/// Fills a buffer with numbers that nobody can foresee: from the system, or in a test from a seed.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Wraps data keys, and unwraps them.
pub trait Provider: fmt::Debug + Send {
    /// What it is, for people.
    fn kind(&self) -> &'static str;

    /// What it wraps from now on is this cluster's, and what says that it is another one's it does not open. Those who are asked over the network
    /// may serve several; what is at hand is one cluster's, and does nothing of the kind.
    fn of_cluster(&mut self, cluster: ClusterId) {
        let _ = cluster;
    }

    /// What [`Provider::wrap`] wraps with.
    ///
    /// # Errors
    /// A passphrase that cannot be stretched.
    fn first(&mut self) -> Result<WrappingKey, BadPassphrase>;

    /// All its keys that are there without being asked for: of a passphrase the one that it would wrap with.
    ///
    /// # Errors
    /// A passphrase that cannot be stretched.
    fn all(&mut self) -> Result<Vec<WrappingKey>, BadPassphrase> {
        self.first().map(|first| vec![first])
    }

    /// Is this one of its keys, so that it can wrap with it?
    ///
    /// # Errors
    /// A passphrase that cannot be stretched so.
    fn has(&mut self, by: &WrappingKey) -> Result<bool, BadPassphrase>;

    /// Wraps a data key for whom it is bound to, with this one of its keys.
    ///
    /// # Errors
    /// It cannot, or has no such key.
    fn wrap_by(
        &mut self,
        by: &WrappingKey,
        binding: &Binding,
        key: &DataKey,
        random: Random<'_>,
    ) -> Result<Next<WrappedKey>, KeyError>;

    /// Wraps a data key for whom it is bound to.
    ///
    /// # Errors
    /// It cannot.
    fn wrap(&mut self, binding: &Binding, key: &DataKey, random: Random<'_>) -> Result<Next<WrappedKey>, KeyError> {
        let by = self
            .first()
            .map_err(|why| KeyError::Passphrase { key: binding.key, why })?;
        self.wrap_by(&by, binding, key, random)
    }

    /// Unwraps the data key of exactly this binding. What it gives is the key that the record's check value names.
    ///
    /// # Errors
    /// The record is another one's, or does not open here, or opens as another key.
    fn unwrap(&mut self, binding: &Binding, wrapped: &WrappedKey) -> Result<Next<DataKey>, KeyError>;
}

/// What is to be done next.
#[derive(Debug)]
pub enum Next<T> {
    /// Nothing: it is done.
    Done(T),
    /// This is to be asked.
    Ask(Question<T>),
}

impl<T> Next<T> {
    /// What was done, where nobody has to be asked.
    #[must_use]
    pub fn done(self) -> Option<T> {
        match self {
            Next::Done(done) => Some(done),
            Next::Ask(_) => None,
        }
    }
}

/// What makes of an answer what was asked for. An error: it is a refusal, or no answer to the question, or opens as another key.
pub type Finish<T> = Box<dyn FnOnce(&Response) -> Result<T, KeyError> + Send>;

/// A request, and what is made of its answer. It may be carried more than once: nothing is changed by it where it is asked.
pub struct Question<T> {
    request: Request,
    finish: Finish<T>,
}

impl<T> Question<T> {
    pub(crate) fn http(
        request: HttpRequest,
        finish: impl FnOnce(&HttpResponse) -> Result<T, KeyError> + Send + 'static,
    ) -> Question<T> {
        let finish = move |response: &Response| match response {
            Response::Http(response) => finish(response),
            Response::Kmip(_) => Err(KeyError::OtherProtocol),
        };
        Question {
            request: Request::Http(request),
            finish: Box::new(finish),
        }
    }

    pub(crate) fn kmip(
        request: KmipRequest,
        finish: impl FnOnce(&[u8]) -> Result<T, KeyError> + Send + 'static,
    ) -> Question<T> {
        let finish = move |response: &Response| match response {
            Response::Kmip(message) => finish(message),
            Response::Http(_) => Err(KeyError::OtherProtocol),
        };
        Question {
            request: Request::Kmip(request),
            finish: Box::new(finish),
        }
    }

    /// What to send.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// What to send, which may be sent more than once, and what makes of what comes back what was asked for ([`Question::answer`]).
    #[must_use]
    pub fn into_parts(self) -> (Request, Finish<T>) {
        (self.request, self.finish)
    }

    /// What came back.
    ///
    /// # Errors
    /// It is a refusal, or no answer to this question, or opens as another key.
    pub fn answer(self, response: &Response) -> Result<T, KeyError> {
        (self.finish)(response)
    }
}

impl<T> fmt::Debug for Question<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Question").field(&self.request).finish()
    }
}

/// What is sent, by the protocol of whom it goes to.
#[derive(Debug)]
pub enum Request {
    /// To Vault.
    Http(HttpRequest),
    /// To a KMIP server.
    Kmip(KmipRequest),
}

/// What comes back, by the same protocol.
pub enum Response {
    /// Of Vault.
    Http(HttpResponse),
    /// A whole message of a KMIP server's, its head ([`answer_length`](crate::answer_length)) among it.
    Kmip(Zeroizing<Vec<u8>>),
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Response::Http(response) => response.fmt(f),
            Response::Kmip(message) => write!(f, "KMIP ({} bytes)", message.len()),
        }
    }
}

/// A message to a KMIP server, as it goes over the wire. It has secrets in it.
pub struct KmipRequest {
    pub(crate) asks: KmipAsks,
    message: Zeroizing<Vec<u8>>,
}

impl KmipRequest {
    pub(crate) fn new(asks: KmipAsks, message: Zeroizing<Vec<u8>>) -> KmipRequest {
        KmipRequest { asks, message }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.message
    }
}

impl fmt::Debug for KmipRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KMIP ({} bytes)", self.message.len())
    }
}

/// A request by HTTPS to the one server that the provider is about. Headers and body have secrets in them.
pub struct HttpRequest {
    /// The method.
    pub method: &'static str,
    /// The path, which begins with a slash, and needs no escapes.
    pub path: String,
    /// Headers, beside `Host` and `Content-Length`, and beside the token where whoever carries it shows that.
    pub headers: Vec<(&'static str, Zeroizing<String>)>,
    /// The body.
    pub body: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.method, self.path, self.body.len())
    }
}

/// The answer to a request. Redirections are not followed: an answer of that kind is a refusal.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The body, whole. What is longer than [`HttpResponse::MAX_BODY_BYTES`] need not be read on.
    pub body: Zeroizing<Vec<u8>>,
}

impl HttpResponse {
    /// The longest body that is looked at.
    pub const MAX_BODY_BYTES: usize = 64 << 10;
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.status, self.body.len())
    }
}
