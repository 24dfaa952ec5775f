//! Mail, by SMTP: `lettre` speaks it. Where the receiver is, and whom to believe, is found here as for all channels.

use super::{Said, connect, tls};
use crate::channel::{Channel, Kind, Protection, Secrets};
use crate::message::Message;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};

/// Tells by mail.
pub(super) async fn send(channel: &Channel, secrets: &Secrets, message: &Message) -> Said {
    let Kind::Mail {
        server,
        port,
        protection,
        user,
        from,
        to,
    } = &channel.kind
    else {
        return Err("this is no channel of mail".to_owned());
    };
    let mail = mail(message, from, to)?;
    let credentials = match (user, &secrets.key) {
        (Some(user), Some(password)) => Some(Credentials::new(user.clone(), password.clone())),
        _ => None,
    };
    let mut last = String::new();
    for address in connect::addresses(channel, server, *port).await? {
        let protection = match protection {
            Protection::None if address.ip().to_canonical().is_loopback() => Tls::None,
            Protection::None => {
                return Err(format!(
                    "{address} is another machine, to which nothing is sent without TLS"
                ));
            }
            Protection::Starttls => Tls::Required(parameters(channel, server)?),
            Protection::Tls => Tls::Wrapper(parameters(channel, server)?),
        };
        // The address is the one that was judged; the name is what its certificate has to say.
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.ip().to_string())
            .port(*port)
            .tls(protection)
            .timeout(Some(super::TIMEOUT))
            .hello_name(ClientId::Domain("amita.invalid".to_owned()));
        if let Some(credentials) = &credentials {
            transport = transport.credentials(credentials.clone());
        }
        match transport.build().send(mail.clone()).await {
            Ok(answer) => {
                let words: Vec<&str> = answer.message().collect();
                return Ok(format!("{} {}", answer.code(), words.join(" ")));
            }
            // Nobody was there to hear anything: the name may have another address.
            Err(why) if is_not_connected(&why) => {
                last = format!("{address} does not take connections: {}", reason(&why));
            }
            Err(why) => return Err(reason(&why)),
        }
    }
    Err(last)
}

/// Was there no connection at all?
fn is_not_connected(why: &lettre::transport::smtp::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let source = std::error::Error::source(why).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|why| {
        [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable].contains(&why.kind())
    })
}

fn reason(why: &lettre::transport::smtp::Error) -> String {
    let mut text = why.to_string();
    let mut source = std::error::Error::source(why);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

fn mail(message: &Message, from: &str, to: &[String]) -> Result<lettre::Message, String> {
    let mailbox =
        |text: &str| -> Result<Mailbox, String> { text.parse().map_err(|_| format!("{text:?} is no mail address")) };
    let mut builder: MessageBuilder = lettre::Message::builder()
        .from(mailbox(from)?)
        .subject(message.subject())
        .message_id(Some(format!("<{}.{}@amita.invalid>", message.id, message.cluster)));
    for receiver in to {
        builder = builder.to(mailbox(receiver)?);
    }
    let built = builder.header(ContentType::TEXT_PLAIN).body(message.text());
    built.map_err(|why| format!("the mail cannot be made: {why}"))
}

fn parameters(channel: &Channel, server: &str) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(server.to_owned()).certificate_store(CertificateStore::None);
    for certificate in tls::authorities(channel)? {
        // Of the system's many one that cannot be read is no reason to believe none.
        if let Ok(certificate) = Certificate::from_der(certificate.to_vec()) {
            builder = builder.add_root_certificate(certificate);
        }
    }
    builder.build().map_err(|why| format!("TLS: {why}"))
}
