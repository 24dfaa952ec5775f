//! Who is who in a cluster.
//!
//! An *identity* is an X.509 certificate whose one URI names its holder: `amita://CLUSTER/ROLE/NAME` ([`Name`]), with what an
//! operator may behind it ([`OperatorRole`]), and beside it what a client may ([`capability`]). The
//! cluster's own certificate authority makes it ([`Authority`], a folder that one machine keeps); a machine makes its key
//! itself, sends a signing request and gets the certificate back, so that no key ever travels. What a machine has lies in
//! an *identity folder* ([`Identity`]): its key, its certificate, and what it trusts ([`Trust`]): one or two roots and the
//! certificates that were revoked, signed by the authority and numbered, so that an older list is refused.
//!
//! A process that serves holds a [`Live`]: TLS configurations made from it once go on being right while the certificate is
//! renewed, the authority is exchanged and certificates are revoked. Whoever holds links looks at [`Live::generation`] and
//! asks again whether each peer is still who it was ([`Live::judge`]).
//!
//! ```no_run
//! # use amita_identity::{Clock, Expected, Live, Role, server_name};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let live = Live::open("/etc/amita/identity".as_ref(), Clock::system())?;
//! // A server that lets nodes and operators in; a client that wants the node `n2` and nobody else.
//! let server = live.server_config(&[Role::Node, Role::Operator]);
//! let client = live.client_config(Expected::named(Role::Node, "n2"));
//! let connection = rustls::ClientConnection::new(client, server_name())?;
//! // When the handshake is over: `peer_name(&connection.peer_certificates().expect("proved")[0])`.
//! # Ok(()) }
//! ```
//!
//! Everything about certificates is decided in here: no other crate parses one. Certificate paths and revocation lists are
//! checked by `webpki`; what is our own is the judgement of names.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod api_token;
mod authority;
pub mod capability;
mod certificate;
mod clock;
mod error;
mod exchange;
mod files;
mod folder;
mod key;
mod live;
mod name;
mod pem;
mod tls;
mod token;
mod trust;

pub use api_token::{ApiToken, BadApiToken};
pub use authority::{
    Actor, Answer, Authority, AuthorityLog, CLIENT_LIFE, ClientChange, ClientTerms, GrantedClient, Issued, LEAF_LIFE,
    Revocation, Revoked, Rotation,
};
pub use certificate::{Facts, Outline, Serial, not_after, peer_name};
pub use clock::{Clock, UnixSeconds};
pub use error::IdentityError;
pub use exchange::{AuthorityClient, AuthorityServer, Upkeep};
pub use folder::{Identity, PendingKey};
pub use live::Live;
pub use name::{BadOperatorRole, BadRole, BadUri, Name, OperatorRole, Role};
pub use tls::{Expected, explain, foreign_client_config, server_name};
pub use token::{AuthorityHash, BadToken, TOKEN_LIFE, Token};
pub use trust::{Refusal, Trust, Usage};
pub use zeroize::Zeroizing;

#[cfg(test)]
mod tests;
