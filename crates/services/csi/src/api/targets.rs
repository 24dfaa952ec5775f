//! Who has volumes by iSCSI.

use super::{Api, Done, IscsiAttachment, NewTarget, Tagged, Target, encode, read};
use http::Method;
use serde_json::json;

impl Api {
    /// A target.
    ///
    /// # Errors
    /// See [`Api::myself`]; none is not an error.
    pub async fn target(&self, name: &str) -> Done<Option<Tagged<Target>>> {
        self.find(format!("/targets/{}", encode(name))).await
    }

    /// All targets.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn targets(&self) -> Done<Vec<Target>> {
        self.all("/targets").await
    }

    /// Makes a target without LUNs.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn create_target(&self, wanted: &NewTarget<'_>) -> Done<Target> {
        let NewTarget { name, iqn, gateways } = wanted;
        let body = json!({"name": name, "iqn": iqn, "gateways": gateways});
        read(&self.send(Method::POST, "/targets".to_owned(), Some(body), None).await?)
    }

    /// Deletes a target as it was looked at, with its LUNs; volumes stay.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn delete_target(&self, target: &Tagged<Target>) -> Done<()> {
        let path = format!("/targets/{}?force=true", encode(&target.thing.name));
        self.send(Method::DELETE, path, None, Some(&target.tag)).await.map(drop)
    }

    /// Makes a volume, or a snapshot of one, a LUN.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn add_lun(&self, target: &str, of: &str, block_bytes: u32) -> Done<()> {
        let path = format!("/targets/{}/luns", encode(target));
        let body = json!({"volume": of, "block_bytes": block_bytes});
        self.send(Method::POST, path, Some(body), None).await.map(drop)
    }

    /// Lets an initiator log in, which is known by that.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn allow_initiator(&self, target: &str, initiator: &str) -> Done<Target> {
        let path = format!("/targets/{}/initiators/{}", encode(target), encode(initiator));
        read(&self.send(Method::PUT, path, Some(json!({})), None).await?)
    }

    /// An initiator may log in no more, and is cut off; one that may not, may not.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn deny_initiator(&self, target: &str, initiator: &str) -> Done<()> {
        let path = format!("/targets/{}/initiators/{}", encode(target), encode(initiator));
        match self.send(Method::DELETE, path, None, None).await {
            Err(why) if why.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    /// By what initiators have a volume, or a snapshot of one; none: it is no LUN.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn iscsi_attachment(&self, of: &str) -> Done<Option<IscsiAttachment>> {
        let found = self.find(format!("/volumes/{}/iscsi-attachment", encode(of))).await?;
        Ok(found.map(|found: Tagged<IscsiAttachment>| found.thing))
    }
}
