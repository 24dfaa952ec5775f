//! Channels: whom alerts are told, and how.
//!
//! A record has no secret in clear: the key of signatures, the password of mail and, where the cluster has a sealing key, the path of a
//! webhook's address (which is a secret with many receivers) stand in one sealed text ([`amita_keys::SealKey`]), bound to the record. Nobody
//! is shown them again.

use crate::alert::{Condition, Severity};
use crate::silence::Match;
use amita_control::health::Kind as Fact;
use amita_keys::{SealError, SealKey, Zeroizing};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The most channels.
pub const MAX_CHANNELS: usize = 16;
/// What the sealed text is bound to, beside the channel's name.
const FIELD: &str = "secret";
/// Alerts of one group that come within this are told together, in seconds, where nobody says otherwise,
pub const USUAL_WAIT_S: u64 = 15;
/// and what still fires is told again after this.
pub const USUAL_REPEAT_S: u64 = 4 * 3600;
/// The longest waits that can be, in seconds.
pub const MAX_WAIT_S: u64 = 3600;
/// The longest time until a repetition, in seconds.
pub const MAX_REPEAT_S: u64 = 30 * 24 * 3600;
/// The shortest one.
pub const LEAST_REPEAT_S: u64 = 60;
/// The most receivers of a mail.
pub const MAX_TO: usize = 16;
/// The longest certificate of an authority, in bytes.
pub const MAX_AUTHORITY: usize = 16 * 1024;
/// The longest of the other texts of a channel, in bytes.
const MAX_TEXT: usize = 512;

/// What alerts are told together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// Those of one code.
    #[default]
    Code,
    /// Those about one node.
    Node,
    /// Those about one pool.
    Pool,
    /// All.
    All,
}

impl GroupBy {
    /// All of them.
    pub const ALL: [GroupBy; 4] = [GroupBy::Code, GroupBy::Node, GroupBy::Pool, GroupBy::All];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            GroupBy::Code => "code",
            GroupBy::Node => "node",
            GroupBy::Pool => "pool",
            GroupBy::All => "all",
        }
    }

    /// The group of an alert.
    #[must_use]
    pub fn group(self, condition: &Condition) -> String {
        let label = |name: &str| {
            condition
                .labels
                .get(name)
                .cloned()
                .unwrap_or_else(|| "other".to_owned())
        };
        match self {
            GroupBy::Code => condition.code.clone(),
            GroupBy::Node => label("node"),
            GroupBy::Pool => label("pool"),
            GroupBy::All => "all".to_owned(),
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupBy, String> {
        let found = GroupBy::ALL.into_iter().find(|by| by.text() == text);
        found.ok_or_else(|| format!("alerts are not grouped by {text:?}: give code, node, pool or all"))
    }
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// TLS from the first byte.
    Tls,
    /// TLS after STARTTLS; without it nothing is sent.
    Starttls,
    /// Nothing.
    None,
}

impl Protection {
    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Protection::Tls => "tls",
            Protection::Starttls => "starttls",
            Protection::None => "none",
        }
    }

    /// The port of a mail server that is spoken to so.
    #[must_use]
    pub fn usual_port(self) -> u16 {
        match self {
            Protection::Tls => 465,
            Protection::Starttls => 587,
            Protection::None => 25,
        }
    }
}

impl FromStr for Protection {
    type Err = String;

    fn from_str(text: &str) -> Result<Protection, String> {
        let all = [Protection::Tls, Protection::Starttls, Protection::None];
        let found = all.into_iter().find(|protection| protection.text() == text);
        found.ok_or_else(|| format!("{text:?} is no protection: give tls, starttls or none"))
    }
}

/// By what syslog is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogBy {
    /// Datagrams (RFC 5426): nobody knows whether they arrive.
    Udp,
    /// A stream (RFC 6587, octet counting).
    Tcp,
    /// A stream by TLS (RFC 5425).
    Tls,
    /// The machine's own log, of the node that tells: `/dev/log`.
    Local,
}

impl SyslogBy {
    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            SyslogBy::Udp => "udp",
            SyslogBy::Tcp => "tcp",
            SyslogBy::Tls => "tls",
            SyslogBy::Local => "local",
        }
    }
}

impl FromStr for SyslogBy {
    type Err = String;

    fn from_str(text: &str) -> Result<SyslogBy, String> {
        let all = [SyslogBy::Udp, SyslogBy::Tcp, SyslogBy::Tls, SyslogBy::Local];
        let found = all.into_iter().find(|by| by.text() == text);
        found.ok_or_else(|| format!("syslog is not spoken by {text:?}: give udp, tcp, tls or local"))
    }
}

/// How a channel tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A POST of JSON.
    Webhook {
        /// Where: `https://HOST:PORT`, without a path.
        origin: String,
    },
    /// A mail.
    Mail {
        /// The server's name or address.
        server: String,
        /// Its port.
        port: u16,
        /// How the connection is protected.
        protection: Protection,
        /// Who we are to it; none: nobody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Whom the mail is from.
        from: String,
        /// Whom it is for.
        to: Vec<String>,
    },
    /// Messages of RFC 5424.
    Syslog {
        /// By what.
        by: SyslogBy,
        /// The server's name or address, and port; empty for `local`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        server: String,
    },
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn text(&self) -> &'static str {
        match self {
            Kind::Webhook { .. } => "webhook",
            Kind::Mail { .. } => "mail",
            Kind::Syslog { .. } => "syslog",
        }
    }

    /// Where it tells, as people read it. There is no secret in it.
    #[must_use]
    pub fn target(&self) -> String {
        match self {
            Kind::Webhook { origin } => format!("{origin}/..."),
            Kind::Mail { server, port, to, .. } => format!("{} by {server}:{port}", to.join(", ")),
            Kind::Syslog {
                by: SyslogBy::Local, ..
            } => "/dev/log".to_owned(),
            Kind::Syslog { by, server } => format!("{}://{server}", by.text()),
        }
    }
}

/// Whom alerts are told: a record of the metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// What it is called.
    pub name: String,
    /// How it tells.
    #[serde(flatten)]
    pub kind: Kind,
    /// The path and query of a webhook, where the cluster has no sealing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// Its secrets, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// It signs what it sends, or shows a password: there is a secret for that.
    #[serde(default)]
    pub has_key: bool,
    /// The certificates of authorities that are believed instead of the system's, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// What is on this machine may be spoken to, and plainly.
    #[serde(default)]
    pub allow_loopback: bool,
    /// What matters less is not told.
    pub least: Severity,
    /// Only these are told.
    #[serde(default)]
    pub matches: Match,
    /// What is told together.
    #[serde(default)]
    pub group_by: GroupBy,
    /// For how long more of a group is waited for, in seconds.
    pub wait_s: u64,
    /// What still fires is told again after so many seconds.
    pub repeat_s: u64,
    /// Is the end of an alert told as well?
    pub resolved: bool,
    /// Who has made it.
    pub made_by: String,
    /// When, in seconds since 1970.
    pub made_at: u64,
}

/// What nobody is shown.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets {
    /// The path and query of a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The key of its signatures, or the password of a mail's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        self.path.zeroize();
        self.key.zeroize();
    }
}

impl Channel {
    /// A channel that tells all that is at least a warning; `now` is in seconds since 1970.
    #[must_use]
    pub fn new(name: &str, kind: Kind, made_by: &str, now: u64) -> Channel {
        Channel {
            name: name.to_owned(),
            kind,
            webhook_path: None,
            secret: None,
            has_key: false,
            authority: None,
            allow_loopback: false,
            least: Severity::Warning,
            matches: Match::default(),
            group_by: GroupBy::default(),
            wait_s: USUAL_WAIT_S,
            repeat_s: USUAL_REPEAT_S,
            resolved: true,
            made_by: made_by.to_owned(),
            made_at: now,
        }
    }

    /// What a sealed text is bound to.
    fn bound_to(&self) -> String {
        format!("notify channel {}", self.name)
    }

    /// Seals the secrets into the record. Without a sealing key a path stands there in clear, and there can be no other secret.
    ///
    /// # Errors
    /// There is no sealing key for what must be sealed; or it is too long.
    pub fn seal(&mut self, secrets: &Secrets, seal: Option<&SealKey>) -> Result<(), String> {
        self.has_key = secrets.key.is_some();
        let Some(seal) = seal else {
            if secrets.key.is_some() {
                return Err(
                    "its secret cannot be kept: there is no sealing key here; give one by --seal-key FILE (`amita host seal-key` \
                     makes it, and every node that shall tell of alerts is given it)"
                        .to_owned(),
                );
            }
            self.webhook_path.clone_from(&secrets.path);
            return Ok(());
        };
        if secrets.key.is_none() && secrets.path.is_none() {
            return Ok(());
        }
        let text = Zeroizing::new(serde_json::to_string(secrets).unwrap_or_default());
        let sealed = seal.seal(&self.bound_to(), FIELD, &text);
        self.secret =
            Some(sealed.map_err(|_| {
                "its secret and the path of its address are too long: 900 characters can be".to_owned()
            })?);
        Ok(())
    }

    /// Its secrets.
    ///
    /// # Errors
    /// There is no sealing key, or another one; or the text is damaged.
    pub fn open(&self, seal: Option<&SealKey>) -> Result<Secrets, String> {
        let Some(sealed) = &self.secret else {
            return Ok(Secrets {
                path: self.webhook_path.clone(),
                key: None,
            });
        };
        let seal = seal.ok_or("this node has no sealing key (--seal-key) to open the channel's secret with")?;
        let opened = seal.unseal(&self.bound_to(), FIELD, sealed);
        let text = opened.map_err(|why: SealError| why.to_string())?;
        serde_json::from_str(&text).map_err(|_| "the channel's secret is no text that was sealed for it".to_owned())
    }

    /// What is wrong with it; none: nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if let Some(fault) = self.matches.fault() {
            return Some(fault);
        }
        if self.wait_s > MAX_WAIT_S {
            return Some(format!(
                "alerts cannot wait for others for {} s: {MAX_WAIT_S} s is the most",
                self.wait_s
            ));
        }
        if !(LEAST_REPEAT_S..=MAX_REPEAT_S).contains(&self.repeat_s) {
            let (repeat, days) = (self.repeat_s, MAX_REPEAT_S / (24 * 3600));
            return Some(format!(
                "alerts cannot be repeated after {repeat} s: {LEAST_REPEAT_S} s to {days} days can be"
            ));
        }
        if let Some(pem) = &self.authority {
            if pem.len() > MAX_AUTHORITY {
                return Some(format!(
                    "the authorities' certificates have {} bytes; {MAX_AUTHORITY} can be",
                    pem.len()
                ));
            }
            if let Err(why) = crate::send::tls::certificates(pem) {
                return Some(why);
            }
        }
        self.fault_of_kind()
    }

    fn fault_of_kind(&self) -> Option<String> {
        let is_plain_text =
            |text: &str| !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
        match &self.kind {
            Kind::Webhook { origin } => {
                if !is_plain_text(origin) {
                    return Some("a webhook's address is https://HOST:PORT/PATH".to_owned());
                }
                let is_plain = origin.starts_with("http://");
                (is_plain && !self.allow_loopback).then(|| {
                    "a webhook is told by https:// only; http:// goes to this machine alone, where loopback is allowed".to_owned()
                })
            }
            Kind::Mail {
                server,
                protection,
                user,
                from,
                to,
                ..
            } => {
                if !is_plain_text(server) || server.contains(['/', '@', ' ']) {
                    return Some(format!("{server:?} is no mail server: give HOST or HOST:PORT"));
                }
                if *protection == Protection::None && !self.allow_loopback {
                    let why = "mail is sent by TLS or STARTTLS; plainly it goes to this machine alone, where loopback is allowed";
                    return Some(why.to_owned());
                }
                if user.is_some() != self.has_key {
                    return Some(
                        "a user of the mail server has a password, and a password a user: give both, or none"
                            .to_owned(),
                    );
                }
                if to.is_empty() || to.len() > MAX_TO {
                    return Some(format!("a mail is for 1 to {MAX_TO} receivers"));
                }
                let bad = std::iter::once(from)
                    .chain(to)
                    .find(|address| address.parse::<lettre::message::Mailbox>().is_err());
                bad.map(|address| format!("{address:?} is no mail address"))
            }
            Kind::Syslog {
                by: SyslogBy::Local,
                server,
            } => (!server.is_empty()).then(|| "the machine's own log has no address".to_owned()),
            Kind::Syslog { server, .. } => {
                let is_place = is_plain_text(server) && place(server).is_some();
                (!is_place).then(|| format!("{server:?} is no syslog server: give HOST:PORT"))
            }
        }
    }

    /// Is this alert for it, at this severity?
    #[must_use]
    pub fn wants(&self, condition: &Condition) -> bool {
        // That it fails itself it could hear only when that is over.
        let is_own = condition.code == Fact::ChannelFails.name() && condition.object == self.name;
        condition.severity >= self.least && !is_own && self.matches.takes(condition)
    }
}

/// `HOST:PORT` in its parts; an address of IPv6 stands in brackets.
#[must_use]
pub fn place(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(inner) => {
            let inner = inner.strip_suffix(']')?;
            inner.parse::<std::net::Ipv6Addr>().ok()?;
            inner
        }
        None => host,
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    let fits = !host.is_empty() && host.len() <= 253 && host.chars().all(is_host);
    let is_bare_v6 = host.contains(':') && !text.starts_with('[');
    (fits && !is_bare_v6).then(|| (host.to_owned(), port))
}

/// A webhook's address: what may be shown of it, and its path and query.
///
/// # Errors
/// What is wrong with it.
pub fn split_url(url: &str) -> Result<(String, String), String> {
    let bad = |why: &str| format!("the webhook's address {why}: give https://HOST[:PORT]/PATH");
    let uri: http::Uri = url.parse().map_err(|_| bad("cannot be read"))?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if !["https", "http"].contains(&scheme) {
        return Err(bad("begins with neither https:// nor http://"));
    }
    let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(bad("has a name or a password in it, which would be shown"));
    }
    if url.contains('#') {
        return Err(bad("has a fragment, which is never sent"));
    }
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    let place_text = format!("{}:{port}", authority.host());
    place(&place_text).ok_or_else(|| bad("has no host that can be"))?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok((format!("{scheme}://{place_text}"), path.to_owned()))
}

/// May a channel connect to this address? Everything that is not a machine somebody meant is refused; this machine is only where that is
/// said. Where the name of a receiver leads is looked at each time that it is spoken to.
///
/// # Errors
/// Says why not.
pub fn may_reach(address: IpAddr, allow_loopback: bool) -> Result<(), String> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return if allow_loopback {
            Ok(())
        } else {
            Err(format!(
                "{address} is this machine: a channel may not connect there unless it says so (--allow-loopback)"
            ))
        };
    }
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if address.is_unspecified() || address.is_multicast() || is_link_local {
        return Err(format!(
            "{address} is no address of a receiver: a channel may not connect there"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
