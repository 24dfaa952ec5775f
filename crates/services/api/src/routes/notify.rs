//! Channels: whom alerts are told. Their secrets come in and are sealed; nobody is shown them.

use super::alerts::{AlertMatch, AlertSeverity};
use super::input::{Body, Known, Named, Names, Parameters, Settings, Shown, now};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::repeat::Secret;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::AdminError;
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_notify::channel::{self, GroupBy, Kind, Protection, Secrets, SyslogBy};
use amita_notify::delivery::Delivery;
use amita_notify::records::{Answer, channel_key};
use amita_notify::{Severity, admin};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_channels, add_channel))
        .routes(routes!(show_channel, remove_channel))
        .routes(routes!(test_channel))
}

/// Whom alerts are told, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Channel {
    /// What it is called.
    #[schema(example = "on-call")]
    pub name: String,
    /// `webhook`, `mail` or `syslog`.
    #[schema(example = "webhook")]
    pub kind: String,
    /// Where it tells: of a webhook's address the beginning, since its path may be a secret.
    #[schema(example = "https://hooks.example.org:443/...")]
    pub target: String,
    /// It signs what it sends, or shows a password.
    pub has_secret: bool,
    /// Receivers on the node's own machine may be spoken to, and plainly.
    pub allow_loopback: bool,
    /// What matters less is not told.
    pub least_severity: AlertSeverity,
    /// Only these alerts are told.
    pub matches: AlertMatch,
    /// What is told together: alerts of one `code`, of one `node`, of one `pool`, or `all`.
    #[schema(example = "code")]
    pub group_by: String,
    /// For how long more of a group is waited for, in seconds.
    pub group_wait_s: u64,
    /// What still fires, and nobody looks after, is told again after so many seconds.
    pub repeat_s: u64,
    /// The end of an alert is told as well.
    pub send_resolved: bool,
    /// Who has made it, as the audit log names them.
    pub made_by: String,
    /// When, in seconds since 1970.
    pub made_at: u64,
    /// Messages that were taken.
    pub delivered: u64,
    /// When the last one was, in seconds since 1970.
    pub delivered_at: Option<u64>,
    /// Messages that wait: one for each group at most.
    pub waiting: usize,
    /// Attempts that have failed since the last message was taken.
    pub failures: u64,
    /// Why the last attempt failed; null: it did not.
    pub why: Option<String>,
    /// When it did, in seconds since 1970.
    pub failed_at: Option<u64>,
}

impl Channel {
    fn of(found: channel::Channel, delivery: Option<&Delivery>) -> Channel {
        let none = Delivery::default();
        let delivery = delivery.unwrap_or(&none);
        Channel {
            kind: found.kind.text().to_owned(),
            target: found.kind.target(),
            has_secret: found.has_key,
            allow_loopback: found.allow_loopback,
            least_severity: found.least.into(),
            matches: found.matches.into(),
            group_by: found.group_by.text().to_owned(),
            group_wait_s: found.wait_s,
            repeat_s: found.repeat_s,
            send_resolved: found.resolved,
            made_by: found.made_by,
            made_at: found.made_at,
            name: found.name,
            delivered: delivery.delivered,
            delivered_at: delivery.delivered_at,
            waiting: delivery
                .groups
                .values()
                .filter(|group| group.outgoing.is_some())
                .count(),
            failures: delivery.failures,
            why: delivery.why.clone(),
            failed_at: delivery.failed_at,
        }
    }
}

impl Settings for Channel {
    fn settings(&self) -> impl Serialize {
        (&self.name, &self.kind, &self.target, self.made_at, &self.made_by)
    }
}

/// A receiver of POST requests with JSON.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedWebhook {
    /// Its address: `https://HOST[:PORT]/PATH`.
    #[schema(example = "https://hooks.example.org/services/T0/B0")]
    pub url: String,
    /// The key by which requests are signed (HMAC-SHA256): the node that is asked has to have the cluster's sealing key.
    pub secret: Option<String>,
}

/// Receivers of mail.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedMail {
    /// The mail server's name or address.
    #[schema(example = "mail.example.org")]
    pub server: String,
    /// Its port; 587 by STARTTLS, 465 by TLS and 25 without where it is not said.
    pub port: Option<u16>,
    /// `starttls` (where it is not said), `tls`, or `none`, which is for receivers on the node's own machine alone.
    #[schema(example = "starttls")]
    pub protection: Option<String>,
    /// Who the cluster is to the server.
    pub user: Option<String>,
    /// The user's password: the node that is asked has to have the cluster's sealing key.
    pub password: Option<String>,
    /// Whom the mail is from.
    #[schema(example = "amita@example.org")]
    pub from: String,
    /// Whom it is for: 1 to 16.
    #[schema(example = json!(["storage@example.org"]))]
    pub to: Vec<String>,
}

/// A receiver of syslog (RFC 5424).
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedSyslog {
    /// `udp`, `tcp`, `tls`, or `local`: the log of the machine of the node that tells.
    #[schema(example = "tls")]
    pub by: String,
    /// `HOST:PORT`; not for `local`.
    #[schema(example = "logs.example.org:6514")]
    pub server: Option<String>,
}

/// A channel that is to be made: one of `webhook`, `mail` and `syslog`.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewChannel {
    /// What it is called: up to 64 letters, digits and `. _ -`, not beginning with `.` or `-`.
    #[schema(example = "on-call")]
    pub name: String,
    /// By POST requests.
    pub webhook: Option<WantedWebhook>,
    /// By mail.
    pub mail: Option<WantedMail>,
    /// By syslog.
    pub syslog: Option<WantedSyslog>,
    /// The certificates of the authorities that are believed instead of the system's, as PEM.
    pub authority: Option<String>,
    /// Receivers on the node's own machine may be spoken to, and plainly.
    #[serde(default)]
    pub allow_loopback: bool,
    /// What matters less is not told; `warning` where it is not said.
    pub least_severity: Option<AlertSeverity>,
    /// Only these alerts are told; all where it is not said.
    #[serde(default)]
    pub matches: AlertMatch,
    /// What is told together: alerts of one `code` (where it is not said), of one `node`, of one `pool`, or `all`.
    pub group_by: Option<String>,
    /// For how long more of a group is waited for, in seconds: at most 3,600; 15 where it is not said.
    pub group_wait_s: Option<u64>,
    /// What still fires is told again after so many seconds: 60 to 30 days; 4 hours where it is not said.
    pub repeat_s: Option<u64>,
    /// Is the end of an alert told as well? Yes where it is not said.
    pub send_resolved: Option<bool>,
}

fn bad(why: impl ToString) -> Problem {
    Problem::new(Code::BadSetting, why)
}

fn word<T: FromStr<Err = String>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(bad)
}

impl NewChannel {
    /// How it tells, and what is to be sealed.
    fn kind(&mut self) -> Result<(Kind, Secrets), Problem> {
        match (self.webhook.take(), self.mail.take(), self.syslog.take()) {
            (Some(wanted), None, None) => {
                let (origin, path) = channel::split_url(&wanted.url).map_err(bad)?;
                let mut secrets = Secrets::default();
                (secrets.path, secrets.key) = (Some(path), wanted.secret);
                Ok((Kind::Webhook { origin }, secrets))
            }
            (None, Some(wanted), None) => {
                let protection = wanted.protection.as_deref().map_or(Ok(Protection::Starttls), word)?;
                let mut secrets = Secrets::default();
                secrets.key = wanted.password;
                let kind = Kind::Mail {
                    server: wanted.server,
                    port: wanted.port.unwrap_or(protection.usual_port()),
                    protection,
                    user: wanted.user,
                    from: wanted.from,
                    to: wanted.to,
                };
                Ok((kind, secrets))
            }
            (None, None, Some(wanted)) => {
                let by: SyslogBy = word(&wanted.by)?;
                let server = wanted.server.unwrap_or_default();
                Ok((Kind::Syslog { by, server }, Secrets::default()))
            }
            _ => Err(bad(
                "how does the channel tell? Give webhook, mail or syslog, and one of them only",
            )),
        }
    }

    fn channel(mut self, by: &str, seal: Option<&SealKey>) -> Result<channel::Channel, Problem> {
        let (kind, secrets) = self.kind()?;
        let mut made = channel::Channel::new(&self.name, kind, by, now().as_secs());
        made.authority = self.authority;
        made.allow_loopback = self.allow_loopback;
        made.least = self.least_severity.map_or(made.least, Severity::from);
        made.matches = self.matches.into();
        made.group_by = self.group_by.as_deref().map_or(Ok(GroupBy::default()), word)?;
        made.wait_s = self.group_wait_s.unwrap_or(made.wait_s);
        made.repeat_s = self.repeat_s.unwrap_or(made.repeat_s);
        made.resolved = self.send_resolved.unwrap_or(made.resolved);
        made.seal(&secrets, seal).map_err(bad)?;
        Ok(made)
    }
}

fn find(meta: &dyn Transact, name: &str) -> Result<Channel, AdminError> {
    let found = admin::channel(meta, name)?;
    Ok(Channel::of(found, admin::deliveries(meta)?.get(name)))
}

/// The channels, in the order of their names.
#[utoipa::path(get, path = "/channels", operation_id = "listChannels", tag = "alerts", params(Cursor),
    responses((status = 200, body = Page<Channel>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list_channels(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Channel>>, Problem> {
    let page = api.run(asker, move |session| {
        let reader = session.reader();
        let deliveries = admin::deliveries(&reader)?;
        let all = admin::channels(&reader)?.into_iter().map(|found| {
            let delivery = deliveries.get(&found.name);
            Channel::of(found, delivery)
        });
        cursor.cut(all, |channel| channel.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a channel. A node tells of alerts by it from the next look on.
#[utoipa::path(post, path = "/channels", operation_id = "addChannel", tag = "alerts", request_body = NewChannel,
    responses((status = 201, body = Channel, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add_channel(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewChannel>,
) -> Result<Response, Problem> {
    let (by, seal) = (asker.0.who().name.clone(), api.seal_key());
    let made = api.run(asker, move |session| {
        let name = wanted.name.clone();
        // Who may not is told that, and not what is wrong with what they want.
        session.permit(Action::ChannelAdd, &name)?;
        let seal = seal.map(|path| SealKey::load(&path)).transpose();
        let seal = seal.map_err(|why| {
            log::warn!("a channel cannot be made: {why}");
            bad("this node cannot read its sealing key: its log says why")
        })?;
        let channel = wanted.channel(&by, seal.as_ref())?;
        let made = session.act(Action::ChannelAdd, &name, |meta| {
            admin::add_channel(meta, &channel)?;
            find(meta, &name)
        });
        Ok(made?)
    });
    // Under a key of idempotency nothing of a request with a secret is kept when it is done.
    Ok((Extension(Secret), Shown(StatusCode::CREATED, made.await?)).into_response())
}

/// A channel.
#[utoipa::path(get, path = "/channels/{name}", operation_id = "showChannel", tag = "alerts", params(Named),
    responses((status = 200, body = Channel, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show_channel(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Shown<Channel>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Removes a channel: nobody is told of alerts by it any more.
#[utoipa::path(delete, path = "/channels/{name}", operation_id = "removeChannel", tag = "alerts", params(Named, Known),
    responses((status = 204, description = "There is no such channel any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove_channel(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        // One whose record cannot be read goes, too.
        if known.is_missing() {
            session.act(Action::ChannelRemove, &name, |meta| admin::remove_channel(meta, &name))?;
            return Ok(StatusCode::NO_CONTENT);
        }
        let held = known.check(session, |meta| {
            let found = find(meta, &name)?;
            let identity = Identity::of(&found.settings(), vec![channel_key(&name)]);
            Ok((found, identity))
        })?;
        held.act(Action::ChannelRemove, &name, |meta| admin::remove_channel(meta, &name))?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

/// What came of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChannelTest {
    /// The receiver has taken the message.
    pub taken: bool,
    /// What it has said, or what went wrong.
    #[schema(example = "200 OK")]
    pub said: String,
    /// How long that took, in milliseconds.
    pub took_ms: u64,
    /// The node that has sent it: the one that tells of alerts now.
    pub node: String,
}

impl From<Answer> for ChannelTest {
    fn from(answer: Answer) -> ChannelTest {
        ChannelTest {
            taken: answer.taken,
            said: answer.said,
            took_ms: answer.took_ms,
            node: answer.node,
        }
    }
}

/// Has the node that tells of alerts send a test message now, and says what the receiver answered. This takes up to 25 s.
#[utoipa::path(post, path = "/channels/{name}/test", operation_id = "testChannel", tag = "alerts", params(Named),
    responses((status = 200, body = ChannelTest),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn test_channel(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<ChannelTest>, Problem> {
    let (by, object) = (asker.0.who().name.clone(), name.clone());
    let answer = api.act(asker, Action::ChannelTest, object, move |meta| {
        admin::test_channel(meta, &name, &by)
    });
    let answer = answer.await?;
    let answer = answer.ok_or_else(|| Problem::new(Code::NotInTime, admin::NOT_TESTED))?;
    Ok(Json(answer.into()))
}
