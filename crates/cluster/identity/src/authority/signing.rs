//! What the authority signs: leaves, and the list that everybody gets.

use super::clients::GrantedClient;
use super::ledger::{ISSUED, Issued, Ledger, Revoked};
use super::roots::{self, Root};
use super::{Authority, BACKDATED_PART, LIST_LIFE, MAX_COMMON_NAME, State, TRUST};
use crate::capability;
use crate::certificate::Serial;
use crate::error::IdentityError;
use crate::files::{self, MAX_FILE_BYTES, Privacy};
use crate::name::Name;
use crate::pem;
use crate::trust;
use rcgen::{
    CertificateParams, CertificateRevocationListParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};

impl Authority {
    /// Makes a leaf, and notes it before anybody gets it.
    pub(super) fn leaf(
        &self,
        ledger: &mut Ledger,
        key: &impl PublicKeyData,
        name: &Name,
        signer: &Root,
    ) -> Result<(CertificateDer<'static>, Serial), IdentityError> {
        let now = self.clock.now();
        let serial = Serial::generate();
        // By what the ledger says now: a client's next certificate is what was granted last.
        let granted = ledger.granted(name);
        let life = granted.map_or(self.leaf_life, |client| client.life);
        let until = now.after(life).min(signer.not_after()?);
        let mut leaf = CertificateParams::default();
        leaf.serial_number = Some(SerialNumber::from_slice(serial.bytes()));
        leaf.not_before = roots::date(now.before(life / BACKDATED_PART))?;
        leaf.not_after = roots::date(until)?;
        leaf.distinguished_name = DistinguishedName::new();
        if name.name().len() <= MAX_COMMON_NAME {
            leaf.distinguished_name.push(DnType::CommonName, name.name());
        }
        let uri = name
            .to_string()
            .try_into()
            .map_err(IdentityError::make("the name of a certificate"))?;
        leaf.subject_alt_names = vec![SanType::URI(uri)];
        leaf.is_ca = IsCa::ExplicitNoCa;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let extension = |client: &GrantedClient| capability::extension(&client.capability(now));
        leaf.custom_extensions = granted.map(extension).into_iter().collect();
        let made = signer.with_issuer(|issuer| leaf.signed_by(key, issuer))?;
        let made = made.map_err(IdentityError::make("a certificate"))?;
        let issued = Issued {
            serial: serial.clone(),
            at: now,
            until,
            by: signer.hash()?,
            name: name.clone(),
        };
        if ledger.is_long(now) && ledger.forget(now) {
            ledger.write(&self.folder)?;
        }
        files::append(&self.folder.join(ISSUED), &issued.line())?;
        Ok((made.der().clone(), serial))
    }

    pub(super) fn publish(&self, state: &mut State) -> Result<(), IdentityError> {
        self.publish_by(state, None)
    }

    /// Makes the list anew, under the next number. `and`: one that signs too, and is not on it any more.
    pub(super) fn publish_by(&self, state: &mut State, and: Option<&Root>) -> Result<(), IdentityError> {
        let now = self.clock.now();
        let number = now.0.max(state.number + 1);
        let mut lists = String::new();
        for root in state.roots.all() {
            lists.push_str(&self.list(root, &state.ledger, number)?);
        }
        let signers: Vec<&dyn trust::Sign> = state.roots.all().iter().chain(and).map(|root| root as _).collect();
        let text = trust::compose(self.cluster, number, &state.roots.pem(), &lists, &signers)?;
        let path = self.folder.join(TRUST);
        // What nobody can read must not take the place of what everybody can.
        if text.len() as u64 > MAX_FILE_BYTES {
            let what = format!("the next one would have {} octets, more than anybody reads", text.len());
            return Err(IdentityError::content(&path, what));
        }
        files::write(&path, Privacy::Public, &text)?;
        state.number = number;
        Ok(())
    }

    /// The revocation list of one root, as PEM. It names all certificates, whoever made them: a serial number is nobody
    /// else's.
    fn list(&self, root: &Root, ledger: &Ledger, number: u64) -> Result<String, IdentityError> {
        let now = self.clock.now();
        let entry = |revoked: &Revoked| {
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from_slice(revoked.serial.bytes()),
                revocation_time: roots::date(revoked.at)?,
                reason_code: None,
                invalidity_date: None,
            })
        };
        let parameters = CertificateRevocationListParams {
            this_update: roots::date(now)?,
            next_update: roots::date(now.after(LIST_LIFE))?,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: ledger.revoked.iter().map(entry).collect::<Result<_, IdentityError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let made = root.with_issuer(|issuer| parameters.signed_by(issuer))?;
        let made = made.map_err(IdentityError::make("a revocation list"))?;
        Ok(pem::encode(pem::CRL, made.der()).to_string())
    }
}

/// The longest signing request: one of ours has 350 characters.
const MAX_REQUEST_BYTES: usize = 8 << 10;

/// The key of a signing request that was signed with it.
pub(super) fn public_key(request: &str) -> Result<rcgen::PublicKey, IdentityError> {
    let bad = |why: &str| IdentityError::Request(why.to_owned());
    if request.len() > MAX_REQUEST_BYTES {
        return Err(bad("it is too long"));
    }
    let blocks = pem::decode(request).map_err(|why| bad(&why))?;
    let der = pem::of_label(&blocks, pem::REQUEST).next();
    let der = der.ok_or_else(|| bad("no CERTIFICATE REQUEST is in it"))?;
    let parsed = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der.to_vec()))
        .map_err(|why| bad(&why.to_string()))?;
    let key = parsed.public_key;
    // An uncompressed point of P-256 has 65 bytes: the signature's algorithm alone does not name the curve.
    if *PublicKeyData::algorithm(&key) != PKCS_ECDSA_P256_SHA256 || key.der_bytes().len() != 65 {
        return Err(bad("its key is not one of ECDSA on P-256"));
    }
    Ok(key)
}
