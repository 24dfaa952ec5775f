//! What is said of a bucket beside its name: where it is, and as who it is used.

use amita_backup::store::{Credentials, ObjectStore, S3, S3Address, S3Settings};
use amita_keys::Zeroizing;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::{Host, Url};

/// The region where nobody names one.
pub const DEFAULT_REGION: &str = "us-east-1";
/// The longest file of authorities.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// Where a bucket is, and as who it is used.
#[derive(Debug, clap::Args)]
pub struct Bucket {
    /// Where the bucket is served, where that is not AWS: https://HOST[:PORT]
    #[arg(long, env = "AWS_ENDPOINT_URL_S3", value_name = "URL")]
    pub s3_endpoint: Option<Url>,
    /// The bucket's region
    #[arg(long, env = "AWS_REGION", value_name = "NAME", default_value = DEFAULT_REGION)]
    pub s3_region: String,
    /// The file with the access key, of its owner alone (mode 0600): lines with aws_access_key_id, aws_secret_access_key and, where they are
    /// lent, aws_session_token, as NAME = VALUE. Without it AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are taken
    #[arg(long, env = "AMITA_BACKUP_S3_CREDENTIALS", value_name = "FILE")]
    pub s3_credentials: Option<PathBuf>,
    /// Further authorities (PEM) that the endpoint's certificate may be of
    #[arg(long, env = "AMITA_BACKUP_S3_CA", value_name = "FILE")]
    pub s3_ca: Option<PathBuf>,
}

impl Bucket {
    /// The store.
    ///
    /// # Errors
    /// Something is not said, or cannot be.
    pub fn store(&self, address: S3Address, locks: bool, plain: bool) -> Result<Arc<dyn ObjectStore>> {
        if let Some(endpoint) = &self.s3_endpoint {
            check(endpoint, plain)?;
        }
        let credentials = match &self.s3_credentials {
            Some(file) => credentials_in(&super::key::read(file, "file of credentials")?, file)?,
            None => credentials_of(|name| std::env::var(name).ok())?,
        };
        let authorities = match &self.s3_ca {
            Some(file) => Some(pem(file)?),
            None => None,
        };
        let settings = S3Settings {
            address,
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            credentials,
            authorities,
            locks,
            ends: interrupt::caught,
        };
        let store =
            S3::new(settings).map_err(|why| Failure::new(format!("the repository: {why}")).kind(Kind::Usage))?;
        Ok(Arc::new(store))
    }
}

/// May it be spoken to so?
fn check(endpoint: &Url, plain: bool) -> Result<()> {
    let refused = |what: String, advice: &str| Err(Failure::new(what).kind(Kind::Usage).advice(advice));
    let is_here = match endpoint.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match endpoint.scheme() {
        "https" => Ok(()),
        "http" if is_here || plain => Ok(()),
        "http" => refused(
            format!("{endpoint} is spoken to in plain text, and whoever is on the way could delete what they see"),
            "Use https, or say --insecure-network where the network is the cluster's own.",
        ),
        _ => refused(
            format!("{endpoint} is no endpoint of S3"),
            "It is https://HOST, or https://HOST:PORT.",
        ),
    }
}

fn pem(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = super::key::open(path).context(cannot)?;
    let mut text = Vec::new();
    file.take(MAX_PEM_BYTES + 1).read_to_end(&mut text).context(cannot)?;
    match text.len() as u64 > MAX_PEM_BYTES {
        true => Err(Failure::new(format!("{shown} is longer than any file of authorities")).kind(Kind::Unreadable)),
        false => Ok(text),
    }
}

const NAMES: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

fn credentials_in(text: &str, file: &Path) -> Result<Credentials> {
    let mut found: [Option<Zeroizing<String>>; 3] = Default::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        if let Some(place) = NAMES.iter().position(|known| *known == name.trim()) {
            // The first section counts, as the first value does.
            found[place].get_or_insert_with(|| Zeroizing::new(value.trim().to_owned()));
        }
    }
    let lacks =
        |name: &str| Failure::new(format!("{} has no line {name} = VALUE", file.display())).kind(Kind::Unreadable);
    let [key, secret, token] = found;
    Ok(Credentials {
        key: key.ok_or_else(|| lacks(NAMES[0]))?.to_string(),
        secret: secret.ok_or_else(|| lacks(NAMES[1]))?,
        token,
    })
}

fn credentials_of(environment: impl Fn(&str) -> Option<String>) -> Result<Credentials> {
    let find = |name: &str| environment(&name.to_ascii_uppercase()).filter(|value| !value.is_empty());
    let lacks = || {
        Failure::new("a bucket is used by an access key, and none is given")
            .kind(Kind::Usage)
            .advice("Name its file (--s3-credentials FILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    };
    Ok(Credentials {
        key: find(NAMES[0]).ok_or_else(lacks)?,
        secret: Zeroizing::new(find(NAMES[1]).ok_or_else(lacks)?),
        token: find(NAMES[2]).map(Zeroizing::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_key_is_of_a_file_or_of_the_environment() {
        let file =
            "[default]\naws_access_key_id = AKIA\naws_secret_access_key=a/b=c\n[other]\naws_access_key_id = no\n";
        let found = credentials_in(file, Path::new("f")).unwrap();
        assert_eq!((found.key.as_str(), found.secret.as_str()), ("AKIA", "a/b=c"));
        assert!(found.token.is_none());
        let lacking = credentials_in("aws_access_key_id = AKIA\n", Path::new("f")).unwrap_err();
        assert!(lacking.what.contains("aws_secret_access_key"), "{lacking:?}");
        let set = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("AKIA".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
            "AWS_SESSION_TOKEN" => Some(String::new()),
            _ => None,
        };
        assert!(credentials_of(set).unwrap().token.is_none());
        assert!(
            credentials_of(|_| None)
                .unwrap_err()
                .advice
                .contains("--s3-credentials")
        );
    }

    #[test]
    fn authorities_are_of_a_regular_file_that_is_not_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN").unwrap();
        assert_eq!(pem(&path).unwrap(), b"-----BEGIN");
        std::fs::write(&path, vec![b'x'; MAX_PEM_BYTES as usize + 1]).unwrap();
        assert!(pem(&path).is_err());
        assert!(pem(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn plain_text_stays_on_this_machine_unless_told_otherwise() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        for good in [
            "https://s3.example.org",
            "http://127.0.0.1:9000",
            "http://[::1]:9000",
            "http://localhost",
        ] {
            check(&url(good), false).unwrap();
        }
        let far = check(&url("http://s3.example.org"), false).unwrap_err();
        assert!(far.advice.contains("--insecure-network"), "{far:?}");
        check(&url("http://s3.example.org"), true).unwrap();
        assert!(check(&url("ftp://s3.example.org"), true).is_err());
    }
}
