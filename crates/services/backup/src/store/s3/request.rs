//! Requests, signed, as they are sent. Nothing is done here.

use super::settings::S3Settings;
use crate::store::{Listed, Retention};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::signing::sign;
use rusty_s3::{Bucket, Method, UrlStyle};
use url::Url;

/// How long a signature is good, in seconds: a request that is a quarter of an hour under way is none.
const SIGNED_S: u64 = 900;
const CHECKSUM: &str = "x-amz-checksum-sha256";
/// What is locked has to come with a checksum, and some look for it by this.
const ALGORITHM: (&str, &str) = ("x-amz-sdk-checksum-algorithm", "SHA256");

/// A request.
pub struct Request {
    pub method: http::Method,
    pub url: Url,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// What signs them.
pub struct Requests {
    bucket: Bucket,
    prefix: String,
    settings: S3Settings,
}

impl Requests {
    pub fn new(settings: &S3Settings) -> Result<Requests, String> {
        let base = settings.base()?;
        let style = match settings.is_by_path() {
            true => UrlStyle::Path,
            false => UrlStyle::VirtualHost,
        };
        let name = settings.address.bucket.clone();
        let bucket = Bucket::new(base.clone(), style, name, settings.region.clone());
        Ok(Requests {
            bucket: bucket.map_err(|why| format!("{base}: {why}"))?,
            prefix: settings.address.prefix.clone(),
            settings: settings.clone(),
        })
    }

    /// `query` and `headers` come in the order of their names.
    fn signed(
        &self,
        method: Method,
        url: Url,
        query: &[(&str, &str)],
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    ) -> Request {
        let credentials = &self.settings.credentials;
        let url = sign(
            &Timestamp::now(),
            method,
            url,
            &credentials.key,
            &credentials.secret,
            credentials.token.as_ref().map(|token| token.as_str()),
            self.bucket.region(),
            SIGNED_S,
            query.iter().copied(),
            headers.iter().map(|(name, value)| (*name, value.as_str())),
        );
        let method = match method {
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
            _ => http::Method::GET,
        };
        Request {
            method,
            url,
            headers,
            body,
        }
    }

    fn object(&self, name: &str) -> Url {
        self.bucket.object_url(&format!("{}{name}", self.prefix))
    }

    pub fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Request {
        let mut headers = vec![("if-none-match", "*".to_owned()), (CHECKSUM, checksum(bytes))];
        if let Some(until) = retain {
            headers.push(("x-amz-object-lock-mode", "COMPLIANCE".to_owned()));
            headers.push(("x-amz-object-lock-retain-until-date", date(until)));
        }
        headers.push((ALGORITHM.0, ALGORITHM.1.to_owned()));
        self.signed(
            Method::Put,
            self.object(name),
            &[],
            headers,
            Bytes::copy_from_slice(bytes),
        )
    }

    /// All of it, or from a byte to another one, which is the last.
    pub fn get(&self, name: &str, range: Option<(u64, u64)>) -> Request {
        let range = range.map(|(first, last)| ("range", format!("bytes={first}-{last}")));
        self.signed(
            Method::Get,
            self.object(name),
            &[],
            range.into_iter().collect(),
            Bytes::new(),
        )
    }

    pub fn list(&self, prefix: &str, after: &str, most: usize) -> Request {
        let (most, prefix) = (most.to_string(), format!("{}{prefix}", self.prefix));
        let after = match after.is_empty() {
            true => String::new(),
            false => format!("{}{after}", self.prefix),
        };
        let mut query = vec![("list-type", "2"), ("max-keys", &most), ("prefix", &prefix)];
        if !after.is_empty() {
            query.push(("start-after", &after));
        }
        self.signed(
            Method::Get,
            self.bucket.base_url().clone(),
            &query,
            Vec::new(),
            Bytes::new(),
        )
    }

    /// What a list says.
    ///
    /// # Errors
    /// It is none, in a sentence.
    pub fn listed(&self, body: &[u8]) -> Result<Vec<Listed>, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the answer is no text".to_owned())?;
        let listed = ListObjectsV2::parse_response(text).map_err(|why| format!("the answer is no list: {why}"))?;
        let own = |key: &str| key.strip_prefix(self.prefix.as_str()).map(str::to_owned);
        let objects = listed.contents.into_iter().filter_map(|object| {
            let name = own(&object.key)?;
            let bytes = object.size.unwrap_or(0);
            Some(Listed { name, bytes })
        });
        Ok(objects.collect())
    }

    pub fn delete(&self, name: &str) -> Request {
        self.signed(Method::Delete, self.object(name), &[], Vec::new(), Bytes::new())
    }

    /// Until when it is locked.
    pub fn retention(&self, name: &str) -> Request {
        self.signed(
            Method::Get,
            self.object(name),
            &[("retention", "")],
            Vec::new(),
            Bytes::new(),
        )
    }

    pub fn retain(&self, name: &str, until: Retention) -> Request {
        let body = format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>COMPLIANCE</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
            date(until)
        );
        let headers = vec![
            (CHECKSUM, checksum(body.as_bytes())),
            (ALGORITHM.0, ALGORITHM.1.to_owned()),
        ];
        self.signed(
            Method::Put,
            self.object(name),
            &[("retention", "")],
            headers,
            body.into(),
        )
    }
}

fn checksum(bytes: &[u8]) -> String {
    STANDARD.encode(digest(&SHA256, bytes))
}

fn date(until: Retention) -> String {
    let seconds = i64::try_from(until.0).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds)
        .unwrap_or(Timestamp::MAX)
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Seconds since 1970, of a date as S3 writes it; what is left of a second counts as one.
pub fn seconds(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    let more = i64::from(time.subsec_nanosecond() > 0);
    u64::try_from(time.as_second() + more).ok()
}
