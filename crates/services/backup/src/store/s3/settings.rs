//! Which bucket, where, and as who.

use std::fmt;
use url::Url;
use zeroize::Zeroizing;

/// A key of S3's and its secret.
#[derive(Clone)]
pub struct Credentials {
    /// The access key's name.
    pub key: String,
    /// Its secret.
    pub secret: Zeroizing<String>,
    /// Where they are only lent: the session's token.
    pub token: Option<Zeroizing<String>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.key)
    }
}

/// A prefix of a bucket: `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Address {
    /// The bucket.
    pub bucket: String,
    /// What all names of objects begin with; empty, or ends with `/`.
    pub prefix: String,
}

impl S3Address {
    /// Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`; `None`: it does not begin so.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Option<Result<S3Address, String>> {
        let rest = text.strip_prefix("s3://")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_sign) || bucket.starts_with('.') {
            return Some(Err(format!("{text}: a bucket's name has letters, digits, - and .")));
        }
        // Addresses cannot say `.` and `..`, and servers do not agree on other signs.
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(is_sign) && !part.bytes().all(|byte| byte == b'.');
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Some(Err(format!(
                "{text}: a prefix is of parts between /, each of letters, digits, -, _ and ."
            )));
        }
        Some(Ok(S3Address {
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
        }))
    }
}

/// All that a store is told.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// Which bucket.
    pub address: S3Address,
    /// Where; `None`: at AWS, in the region.
    pub endpoint: Option<Url>,
    /// The bucket's region.
    pub region: String,
    /// As who.
    pub credentials: Credentials,
    /// Further authorities, as PEM, that the endpoint's certificate may be of; the system's count in any case.
    pub authorities: Option<Vec<u8>>,
    /// Are objects locked? Then it is looked whether one is before it is deleted.
    pub locks: bool,
    /// From when on nothing is waited for any more.
    pub ends: fn() -> bool,
}

impl S3Settings {
    /// Where requests go.
    ///
    /// # Errors
    /// A region that none can be.
    pub(super) fn base(&self) -> Result<Url, String> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(endpoint.clone());
        }
        let is_region = self
            .region
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let url = format!("https://s3.{}.amazonaws.com", self.region);
        match is_region && !self.region.is_empty() {
            true => Url::parse(&url).map_err(|why| format!("{url}: {why}")),
            false => Err(format!("{:?} is no region", self.region)),
        }
    }

    /// Are buckets a part of the path? AWS has them in the host's name, where their own names allow it; others have both, or only this.
    pub(super) fn is_by_path(&self) -> bool {
        self.endpoint.is_some() || self.address.bucket.contains('.')
    }
}
