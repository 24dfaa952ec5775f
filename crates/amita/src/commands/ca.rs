//! `amita ca`: the certificate authority.

use crate::commands::core_dumps::CoreDumps;
use crate::commands::events::parse_age;
use crate::commands::join::{CaArguments, Described};
use amita_identity::{AuthorityServer, Issued, Rotation};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::table::print;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

/// How often the main thread looks whether it is told to end.
const LOOK: Duration = Duration::from_millis(100);

/// What to do with the authority.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serve the authority: machines join and renew here, and hear what was revoked
    ///
    /// Whoever reaches the address can get the list of what is trusted, which is no secret; a certificate gets who has a token
    /// or a certificate.
    Serve {
        #[command(flatten)]
        ca: CaArguments,
        /// Where machines reach it
        #[arg(long, env = "AMITA_CA_LISTEN", value_name = "ADDRESS:PORT")]
        listen: SocketAddr,
        /// How long the certificates are valid that it makes: 60s to 397d
        #[arg(long, env = "AMITA_CA_LEAF_LIFE", value_name = "AGE", default_value = "7d", value_parser = parse_age)]
        leaf_life: Duration,
        #[command(flatten)]
        core_dumps: CoreDumps,
    },
    /// Show the authority: its cluster, what its key is known by, and where an exchange of it stands
    Show {
        #[command(flatten)]
        ca: CaArguments,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Exchange the authority for a new one, while everybody goes on
    ///
    /// The new one is trusted as soon as machines hear of it, and signs after --signs-after; certificates go over to it as they
    /// are renewed. When all have, --finish has the old one trusted no more.
    Rotate {
        #[command(flatten)]
        ca: CaArguments,
        /// How long the old one goes on signing, so that everybody hears of the new one first
        #[arg(long, value_name = "AGE", default_value = "1h", value_parser = parse_age, conflicts_with = "finish")]
        signs_after: Duration,
        /// The old one is trusted no more
        #[arg(long)]
        finish: bool,
        /// Also while certificates by the old one are in use: their holders have to join anew
        #[arg(long, requires = "finish")]
        force: bool,
        /// Say where it stands as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Serve {
            ca, listen, leaf_life, ..
        } => serve(ca, *listen, *leaf_life),
        Command::Show { ca, json } => show(ca, *json),
        Command::Rotate {
            ca,
            signs_after,
            finish,
            force,
            json,
        } => {
            let authority = ca.open()?;
            if *finish {
                let ended = authority.finish(*force).described()?;
                print(*json, &shown(&ended), || {
                    format!("The old authority is trusted no more; {} signs.\n", ended.to)
                })
            } else {
                let begun = authority.rotate(*signs_after).described()?;
                print(*json, &shown(&begun), || text(&begun))
            }
        }
    }
}

fn serve(ca: &CaArguments, listen: SocketAddr, leaf_life: Duration) -> Result<()> {
    interrupt::catch();
    let authority = ca.open()?.with_leaf_life(leaf_life).described()?;
    let cluster = authority.cluster();
    let server = AuthorityServer::start(authority, listen).described()?;
    log::info!("the authority of cluster {cluster} serves on {}", server.address());
    while !interrupt::caught() {
        std::thread::sleep(LOOK);
    }
    log::info!("the authority ends");
    Ok(())
}

fn show(ca: &CaArguments, as_json: bool) -> Result<()> {
    let authority = ca.open()?;
    let hash = authority.hash().described()?;
    let rotation = authority.rotation().described()?;
    let number = authority.number().described()?;
    let all = json!({
        "cluster": authority.cluster(), "authority": hash.to_string(), "trust_number": number,
        "rotation": rotation.as_ref().map(shown),
    });
    print(as_json, &all, || {
        let exchange = rotation.as_ref().map_or_else(String::new, text);
        format!(
            "cluster     {}\nauthority   {hash}\ntrust list  {number}\n{exchange}",
            authority.cluster()
        )
    })
}

fn shown(rotation: &Rotation) -> serde_json::Value {
    let waiting = rotation.waiting.iter().map(|issued| {
        json!({ "name": issued.name.to_string(), "serial": issued.serial.to_string(), "not_after": issued.until.0 })
    });
    json!({
        "to": rotation.to.to_string(), "signs_from": rotation.signs_from.0, "waiting": waiting.collect::<Vec<_>>(),
    })
}

fn text(rotation: &Rotation) -> String {
    let mut text = format!(
        "The authority is being exchanged: {} signs from {} on.\n",
        rotation.to, rotation.signs_from
    );
    if rotation.waiting.is_empty() {
        text.push_str("Nobody's certificate is by the old one any more: `amita ca rotate --finish` ends it.\n");
    } else {
        text.push_str("These are still by the old one, until they are renewed:\n");
        let line = |issued: &Issued| format!("  {} until {}\n", issued.name, issued.until);
        text.extend(rotation.waiting.iter().map(line));
    }
    text
}
