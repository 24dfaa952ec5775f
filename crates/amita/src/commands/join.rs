//! What the commands about identities share: tokens out and in, and errors as people read them.

use crate::cli::Folder;
use amita_identity::{
    Authority, AuthorityClient, BadUri, Clock, Identity, IdentityError, Name, OperatorRole, Role, TOKEN_LIFE, Token,
    Zeroizing,
};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::say_line;
use amita_terminal::table::print;
use serde_json::json;
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file with a token is at most this long.
const MAX_FILE_BYTES: u64 = 4096;

/// Errors of identities, as people read them.
pub(crate) trait Described<T> {
    /// The same, as a [`Failure`] with its exit code.
    fn described(self) -> Result<T>;
}

impl<T> Described<T> for std::result::Result<T, IdentityError> {
    fn described(self) -> Result<T> {
        self.map_err(|error| {
            let kind = match &error {
                IdentityError::Exists { .. } | IdentityError::GrantedOtherwise(_) => Kind::Conflict,
                IdentityError::Unreachable { .. } => Kind::Unreachable,
                IdentityError::NoIdentity { .. } | IdentityError::NoAuthority { .. } | IdentityError::NotIssued(_) => {
                    Kind::NotFound
                }
                IdentityError::Loose { .. }
                | IdentityError::Owner { .. }
                | IdentityError::Content { .. }
                | IdentityError::File { .. } => Kind::Unreadable,
                IdentityError::BadUri(_)
                | IdentityError::Token(_)
                | IdentityError::ReservedRole(_)
                | IdentityError::NotGranted { .. } => Kind::Usage,
                _ => Kind::Failed,
            };
            Failure::new(error.to_string()).kind(kind)
        })
    }
}

/// Where the authority is, for commands on its machine.
#[derive(Debug, clap::Args)]
pub struct CaArguments {
    /// The authority's folder
    #[arg(long, env = "AMITA_CA", value_name = "DIR")]
    pub ca: PathBuf,
}

impl CaArguments {
    pub(crate) fn open(&self) -> Result<Authority> {
        Authority::open(&self.ca, Clock::system()).described()
    }
}

/// `amita node token`, and the like.
#[derive(Debug, clap::Args)]
pub struct TokenArguments {
    /// The name that it is for
    pub name: String,
    #[command(flatten)]
    pub ca: CaArguments,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita node join`, and the like.
#[derive(Debug, clap::Args)]
pub struct JoinArguments {
    /// The name that the token was made for
    pub name: String,
    /// Where the authority serves (`amita ca serve`)
    #[arg(long, env = "AMITA_CA_SERVER", value_name = "HOST:PORT")]
    pub ca_server: String,
    /// A file with the token (mode 0600), or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub token_file: PathBuf,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita client create`, `amita operator create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    #[command(flatten)]
    pub ca: CaArguments,
    /// Print a token for another machine instead, where `join` makes the key
    #[arg(long)]
    pub token: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes a token, and prints it.
pub(crate) fn token(arguments: &TokenArguments, role: Role) -> Result<()> {
    let authority = arguments.ca.open()?;
    let name = checked(Name::new(authority.cluster(), role, &arguments.name))?;
    print_token(&authority, &name, arguments.json)
}

fn checked(name: std::result::Result<Name, BadUri>) -> Result<Name> {
    name.map_err(IdentityError::from).described()
}

fn print_token(authority: &Authority, name: &Name, as_json: bool) -> Result<()> {
    let token = authority.token(name).described()?;
    let text = token.to_text();
    if as_json {
        let seconds = TOKEN_LIFE.as_secs();
        let shown = json!({
            "name": name.to_string(), "token": text.as_str(), "id": token.id(), "valid_s": seconds,
            "authority": token.authority().to_string(),
        });
        return print(true, &shown, String::new);
    }
    // Alone on standard output, for a pipe or a file; what it is for is said beside it.
    say_line!("{}", *text);
    let (verb, gateway) = match name.role() {
        Role::Gateway => ("node", " --gateway"),
        Role::Node => ("node", ""),
        role => (role.text(), ""),
    };
    let _ = writeln!(
        std::io::stderr(),
        "This lets one machine in as {name}, within {} minutes. There:\n  amita {verb} join {} --ca-server HOST:PORT \
         --token-file FILE --identity DIR{gateway}",
        TOKEN_LIFE.as_secs() / 60,
        name.name()
    );
    Ok(())
}

/// Makes an identity here, with a token.
pub(crate) fn join(arguments: &JoinArguments, role: Role, identity: &Folder) -> Result<()> {
    let folder = identity.wanted()?;
    // Before the token is read: it may come from somebody's keyboard.
    Identity::check_absent(folder).described()?;
    let client =
        AuthorityClient::new(&arguments.ca_server).map_err(|why| Failure::new(why.to_string()).kind(Kind::Usage))?;
    let token = read_token(&arguments.token_file)?;
    let made = client
        .join(&token, folder, (role, arguments.name.as_str()), &Clock::system())
        .described()?;
    print_identity(&made, folder, arguments.json)
}

impl CreateArguments {
    /// Is there a folder for the identity, if one is made here, and nothing in it?
    ///
    /// # Errors
    /// No folder was named; it holds an identity.
    pub(crate) fn check_place(&self, identity: &Folder) -> Result<()> {
        if self.token {
            return Ok(());
        }
        Identity::check_absent(identity.wanted()?).described()
    }
}

/// Makes an identity on the authority's machine, or a token for another one.
pub(crate) fn create(arguments: &CreateArguments, role: Role, identity: &Folder) -> Result<()> {
    let authority = arguments.ca.open()?;
    let name = checked(Name::new(authority.cluster(), role, &arguments.name))?;
    create_named(arguments, &authority, &name, identity)
}

/// The same for an operator of that role.
pub(crate) fn create_operator(arguments: &CreateArguments, role: OperatorRole, identity: &Folder) -> Result<()> {
    let authority = arguments.ca.open()?;
    let name = checked(Name::operator(authority.cluster(), role, &arguments.name))?;
    create_named(arguments, &authority, &name, identity)
}

fn create_named(arguments: &CreateArguments, authority: &Authority, name: &Name, identity: &Folder) -> Result<()> {
    if arguments.token {
        return print_token(authority, name, arguments.json);
    }
    let folder = identity.wanted()?;
    let made = authority.make_identity(folder, name).described()?;
    print_identity(&made, folder, arguments.json)
}

pub(crate) fn print_identity(made: &Identity, folder: &Path, as_json: bool) -> Result<()> {
    let shown = json!({
        "name": made.name().to_string(), "serial": made.serial().to_string(), "not_after": made.not_after().0,
        "identity": folder.display().to_string(),
    });
    print(as_json, &shown, || {
        format!(
            "{} has an identity in {}: certificate {}, valid until {}.\n",
            made.name(),
            folder.display(),
            made.serial(),
            made.not_after()
        )
    })
}

/// The first line of a file. What was read is never said.
fn read_token(path: &Path) -> Result<Token> {
    if path.to_str().is_some_and(|given| given.starts_with("amita-join-")) {
        return Err(Failure::new("--token-file takes the name of a file, not the token itself")
            .kind(Kind::Usage)
            .advice(
                "Everybody on this machine could read it in the list of processes: make a new one, put it into a file, or \
                 pass - and give it on standard input.",
            ));
    }
    let is_stdin = path.as_os_str() == "-";
    let place = if is_stdin {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let unreadable =
        |why: std::io::Error| Failure::new(format!("cannot read the token from {place}: {why}")).kind(Kind::Unreadable);
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize));
    let read = if is_stdin {
        std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        refuse_loose(path, &file.metadata().map_err(unreadable)?)?;
        file.take(MAX_FILE_BYTES).read_to_string(&mut text)
    };
    read.map_err(unreadable)?;
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    line.parse()
        .map_err(|why| Failure::new(format!("{place}: {why}")).kind(Kind::Usage))
}

/// Refuses a file that other users may read: they could join before us. A pipe ends with its reader.
fn refuse_loose(path: &Path, found: &Metadata) -> Result<()> {
    let mode = found.mode() & 0o7777;
    if !found.is_file() || mode & 0o077 == 0 {
        return Ok(());
    }
    Err(IdentityError::Loose {
        path: path.to_owned(),
        mode,
        wanted: 0o600,
    })
    .described()
}

#[cfg(test)]
mod tests;
