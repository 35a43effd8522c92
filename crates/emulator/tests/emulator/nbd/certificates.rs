//! Certificates of tests, in folders as libnbd, nbdkit and qemu expect them.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM form.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Years in which a certificate is valid, from the first to the begin of the last.
pub(crate) type Years = (i32, i32);

pub(crate) const VALID: Years = (2020, 4000);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Signs a certificate for these names and addresses.
    pub(crate) fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, years: Years) -> Signed {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "of a test");
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { certificate, key: key.serialize_pem() }
    }

    /// Writes the authority's own certificate.
    pub(crate) fn trusted_in(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("ca-cert.pem"), &self.pem).unwrap();
    }

    /// Makes the folder of a server with these names.
    pub(crate) fn server_in(&self, folder: &Path, names: &[&str], years: Years) {
        self.trusted_in(folder);
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, years).write(folder, "server");
    }

    /// Makes the folder of a client with a certificate.
    pub(crate) fn client_in(&self, folder: &Path) {
        self.trusted_in(folder);
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, VALID).write(folder, "client");
    }
}

impl Signed {
    pub(crate) fn write(&self, folder: &Path, side: &str) {
        fs::write(folder.join(format!("{side}-cert.pem")), &self.certificate).unwrap();
        fs::write(folder.join(format!("{side}-key.pem")), &self.key).unwrap();
    }
}
