//! Connections to receivers: the name is looked up here, and each address that it has is judged before it is spoken to.

use crate::channel::{Channel, may_reach};
use std::net::SocketAddr;
use tokio::net::{TcpStream, lookup_host};

/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;

/// The addresses of a receiver that may be spoken to.
pub(super) async fn addresses(channel: &Channel, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|why| format!("{host} is not found: {why}"))?.collect();
    let mut refused = None;
    let mut good = Vec::new();
    for address in found {
        match may_reach(address.ip(), channel.allow_loopback) {
            Ok(()) => good.push(address),
            Err(why) => refused = Some(why),
        }
    }
    good.truncate(MOST_TRIED);
    match (good.is_empty(), refused) {
        (false, _) => Ok(good),
        (true, Some(why)) => Err(why),
        (true, None) => Err(format!("{host} has no address")),
    }
}

/// A connection to the first of its addresses that answers.
pub(super) async fn connect(channel: &Channel, host: &str, port: u16) -> Result<TcpStream, String> {
    let mut last = String::new();
    for address in addresses(channel, host, port).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(why) => last = format!("{address} does not take connections: {why}"),
        }
    }
    Err(last)
}

/// Plain words are for this machine alone, whatever its name was when the channel was made.
pub(super) fn is_here(stream: &TcpStream) -> Result<(), String> {
    let peer = stream.peer_addr().map_err(|why| why.to_string())?;
    if peer.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{peer} is another machine, to which nothing is sent without TLS"
    ))
}
