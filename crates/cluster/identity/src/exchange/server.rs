//! The authority's server: certificates for who has a token or a certificate, the trust list for everybody.
//!
//! A thread takes connections, each is served by a thread of its own. What a stranger costs is bounded: so many connections, a
//! small stack and the buffers of one handshake each, five seconds for the handshake and as many for the request. When all
//! places are taken somebody leaves ([`places`]); who is honest and has to leave all the same comes again.

mod places;

use super::http::{self, BadHttp, Request};
use super::{JOIN, RENEW, TRUST, Timed};
use crate::authority::{Actor, Authority};
use crate::error::IdentityError;
use crate::live::Live;
use crate::name::Role;
use crate::token::{BadToken, Token};
use amita_audit::{Allowances, Limit, Missed, Proof, network};
use places::{Place, Places};
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long the request may take then, and its answer.
const EXCHANGE: Duration = Duration::from_secs(5);
/// How long it may take to read the answer.
const PARTING: Duration = Duration::from_secs(1);
/// Refusals that are told in the log, of one address of strangers and of one name: at once, and later.
const REFUSALS_OF_ONE: Limit = Limit {
    most: 8,
    pause: Duration::from_secs(6 * 3600),
};
/// Of all strangers, and of all names, apart. The log keeps 16 MiB at least, which are more than a year of both and of 500 nodes'
/// renewals.
const REFUSALS: Limit = Limit {
    most: 32,
    pause: Duration::from_secs(2 * 3600),
};
/// Parsing a request takes a few KiB, a signature some more.
const STACK_BYTES: usize = 256 << 10;
/// A pause when the system has no connection for us.
const PAUSE: Duration = Duration::from_millis(50);

/// The server, while it runs. Dropped, it ends.
#[derive(Debug)]
pub struct AuthorityServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    authority: Authority,
    live: Arc<Live>,
    config: Arc<ServerConfig>,
    places: Arc<Places>,
    /// One thread makes the server's next certificate.
    refreshing: Mutex<()>,
    /// What may be told of those who show no certificate, and of those who do.
    strangers: Mutex<Allowances>,
    holders: Mutex<Allowances>,
    stop: AtomicBool,
}

impl AuthorityServer {
    /// Serves an authority.
    ///
    /// # Errors
    /// The address is not to be had; the authority's folder cannot be read.
    pub fn start(authority: Authority, listen: SocketAddr) -> Result<AuthorityServer, IdentityError> {
        let refused = |why: std::io::Error| IdentityError::Server {
            server: listen.to_string(),
            why: format!("cannot listen there: {why}"),
        };
        let listener = TcpListener::bind(listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        authority.mend_list()?;
        let live = authority.server()?;
        // Certificates of nodes and of all others are renewed here; who has none brings a token.
        let config = live.open_server_config(&[Role::Node, Role::Gateway, Role::Client, Role::Operator]);
        let shared = Arc::new(Shared {
            authority,
            live,
            config,
            places: Arc::default(),
            refreshing: Mutex::default(),
            strangers: Mutex::new(Allowances::new(REFUSALS_OF_ONE, REFUSALS, Instant::now())),
            holders: Mutex::new(Allowances::new(REFUSALS_OF_ONE, REFUSALS, Instant::now())),
            stop: AtomicBool::new(false),
        });
        let serving = shared.clone();
        let thread = std::thread::Builder::new()
            .name("amita-authority".to_owned())
            .spawn(move || accept(&serving, &listener))
            .map_err(refused)?;
        Ok(AuthorityServer {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AuthorityServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the thread that takes connections.
        let _ = TcpStream::connect_timeout(&self.address, HANDSHAKE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((socket, from)) = accepted else {
            // Out of files, mostly: others give theirs back.
            std::thread::sleep(PAUSE);
            continue;
        };
        // Those who were sent away are on their way out: who comes next waits for that, as others wait in the system's queue.
        while !shared.places.wait(PAUSE) {
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
        }
        let socket = Arc::new(socket);
        let place = shared.places.stand(from, &socket);
        let serving = Arc::clone(shared);
        let spawned = std::thread::Builder::new()
            .name("amita-authority-connection".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&serving, &place, socket, from));
        if let Err(why) = spawned {
            log::warn!(target: "authority", "{from} is sent away, for there is no thread: {why}");
        }
    }
}

fn serve(shared: &Shared, place: &Place, socket: Arc<TcpStream>, from: SocketAddr) {
    let socket = Timed::new(socket, HANDSHAKE);
    // Who says nothing costs a thread, and nothing else.
    if !matches!(socket.peek(), Ok(1..)) {
        return;
    }
    if let Err(why) = shared.refresh() {
        log::error!(target: "authority", "{why}");
    }
    let Ok(connection) = ServerConnection::new(shared.config.clone()) else {
        return;
    };
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        if let Err(why) = stream.conn.complete_io(&mut stream.sock) {
            log::debug!(target: "authority", "{from}: no handshake: {why}");
            part(&mut stream.sock);
            return;
        }
    }
    let shown = stream.conn.peer_certificates().and_then(|chain| chain.first());
    if let Some(Ok(name)) = shown.map(crate::peer_name) {
        place.show(name.to_string());
    }
    stream.sock.until = Instant::now() + EXCHANGE;
    let (status, body) = match http::read_request(&mut stream) {
        Ok(request) => {
            let shown = stream.conn.peer_certificates().and_then(|chain| chain.first());
            shared.answer(&request, shown, from)
        }
        Err(BadHttp::Io(_)) => return,
        Err(why @ BadHttp::Long(_)) => (413, format!("{why}\n")),
        Err(why) => (400, format!("{why}\n")),
    };
    if stream.write_all(http::answer(status, &body).as_bytes()).is_ok() {
        stream.conn.send_close_notify();
        let _ = stream.conn.write_tls(&mut stream.sock);
        part(&mut stream.sock);
    }
}

/// Waits a little until the other side has read what was said last: closed at once, with something of its own unread, the
/// connection would take that back.
fn part(sock: &mut Timed) {
    let _ = sock.socket.shutdown(Shutdown::Write);
    sock.until = Instant::now() + PARTING;
    let mut nothing = [0; 1024];
    for _ in 0..http::MAX_REQUEST / nothing.len() {
        if !matches!(sock.read(&mut nothing), Ok(1..)) {
            return;
        }
    }
}

impl Shared {
    /// The server's own certificate is renewed, follows an exchange of the authority, and what was revoked by a command is
    /// refused from the next connection on.
    fn refresh(&self) -> Result<(), IdentityError> {
        let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.live.current();
        let is_old = self.live.clock().now() >= current.facts().renew_from();
        let wanted = self.authority.hash()?;
        let by = current
            .chain()
            .last()
            .and_then(|root| crate::certificate::authority_hash(root).ok());
        if is_old || by != Some(wanted) || current.trust().text() != Some(self.authority.trust()?.as_str()) {
            self.live.replace(self.authority.server_identity()?);
        }
        Ok(())
    }

    fn answer(&self, request: &Request, shown: Option<&CertificateDer<'_>>, from: SocketAddr) -> (u16, String) {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", TRUST) => match self.authority.trust() {
                Ok(text) => (200, text),
                Err(why) => failed(&why),
            },
            ("POST", JOIN) => self.join(request, from),
            ("POST", RENEW) => self.renew(request, shown, from),
            (_, JOIN | RENEW | TRUST) => (405, "this is asked in another way\n".to_owned()),
            _ => (404, "there is nothing here\n".to_owned()),
        }
    }

    fn join(&self, request: &Request, from: SocketAddr) -> (u16, String) {
        let token: Result<Token, BadToken> = request.token.as_ref().map_or(Err(BadToken::Form), |text| text.parse());
        let answered = token.map_err(IdentityError::from).and_then(|token| {
            self.authority
                .redeem_from(&token, &request.body, Some(from.to_string()))
                .map(|answer| (token, answer))
        });
        match answered {
            Ok((token, answer)) => {
                log::info!(target: "authority", "{from} has joined with token {}", token.id());
                (200, answer.to_text())
            }
            Err(why @ (IdentityError::Token(_) | IdentityError::Request(_))) => {
                let actor = Actor::reached("nobody known", "none", Proof::None, Some(from.to_string()));
                self.tell_refused(
                    &self.strangers,
                    &network(from.ip()).to_string(),
                    &actor,
                    "cert.issue",
                    &why,
                );
                (403, format!("{why}\n"))
            }
            Err(why) => failed(&why),
        }
    }

    /// Strangers can be refused as often as they like: the log is not filled by them, and says how many are not in it.
    fn tell_refused(
        &self,
        allowances: &Mutex<Allowances>,
        source: &str,
        actor: &Actor,
        action: &str,
        why: &IdentityError,
    ) {
        let allowed = allowances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(source, Instant::now());
        let Some(missed) = allowed else { return };
        let mut told = why.to_string();
        // In front: a long reason is cut off at its end.
        if missed != Missed::default() {
            told.insert_str(0, &format!("{} ", missed.text().trim_start()));
        }
        let from = actor.whence.address.as_deref().unwrap_or_default();
        log::warn!(target: "authority", "{from}: {action} is refused: {told}");
        if let Err(why) = self.authority.tell_refused(actor, action, "", &told) {
            log::error!(target: "authority", "the audit log cannot be written: {why}");
        }
    }

    fn renew(&self, request: &Request, shown: Option<&CertificateDer<'_>>, from: SocketAddr) -> (u16, String) {
        let Some(shown) = shown else {
            return (401, "a renewal is for who shows a certificate\n".to_owned());
        };
        match self.authority.renew_from(shown, &request.body, Some(from.to_string())) {
            Ok(answer) => {
                let name = crate::peer_name(shown).map(|name| name.to_string()).unwrap_or_default();
                log::info!(target: "authority", "{from}: {name} is renewed");
                (200, answer.to_text())
            }
            Err(
                why @ (IdentityError::NotRenewed { .. } | IdentityError::Request(_) | IdentityError::ReservedRole(_)),
            ) => {
                let name = crate::peer_name(shown).map_or_else(|why| why.to_string(), |name| name.to_string());
                let actor = Actor::reached(&name, "none", Proof::Certificate, Some(from.to_string()));
                self.tell_refused(&self.holders, &name, &actor, "cert.renew", &why);
                (403, format!("{why}\n"))
            }
            Err(why) => failed(&why),
        }
    }
}

/// What is wrong with the authority is for its own log.
fn failed(why: &IdentityError) -> (u16, String) {
    log::error!(target: "authority", "{why}");
    (500, "the authority cannot answer: its log says why\n".to_owned())
}
