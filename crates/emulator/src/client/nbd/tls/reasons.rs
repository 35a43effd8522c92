//! Failures of TLS in words, each with what is allowed and a hint.

use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error};

/// The reason of a failure. The client expects `name`, and trusts the authorities that are from `authorities`.
pub(super) fn explained(error: &Error, name: &ServerName<'_>, authorities: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error, name, authorities),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. } => format!("its answer is not TLS ({error})"),
        Error::PeerIncompatible(_) => {
            format!(
                "there is no version or method that both sides know ({error}); TLS 1.2 and 1.3 are allowed"
            )
        }
        error => error.to_string(),
    }
}

fn of_certificate(error: &CertificateError, name: &ServerName<'_>, authorities: &str) -> String {
    let name = name.to_str();
    match error {
        CertificateError::NotValidForName => {
            format!("its certificate is not for `{name}`; write the name that it is for as tls-hostname=NAME")
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => format!(
            "its certificate names no host, and `{name}` is expected; the server needs one with `{name}` as a subjectAltName"
        ),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let names = names.join(", ");
            format!(
                "its certificate is for {names}, not for `{name}`; if it is the right server, write tls-hostname=NAME"
            )
        }
        CertificateError::Expired => "its certificate has expired; the server needs a new one".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "its certificate expired at {}, and now is {}; the server needs a new one, or this machine the right time",
            date(*not_after),
            date(*time)
        ),
        CertificateError::NotValidYet => "its certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "its certificate is valid from {} on, and now is {}; wait, or give this machine the right time",
            date(*not_before),
            date(*time)
        ),
        CertificateError::UnknownIssuer => format!(
            "its certificate is signed by none of the authorities of {authorities}; write tls-certificates=FOLDER, a folder \
             whose ca-cert.pem has the authority that signed it"
        ),
        error => format!("its certificate is refused: {error}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    let hint = match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "; it demands a certificate of the client: client-cert.pem and client-key.pem in the folder of tls-certificates"
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            "; client-cert.pem must be signed by an authority of the server, and be valid"
        }
        AlertDescription::HandshakeFailure => {
            "; it may demand a certificate of the client (client-cert.pem and client-key.pem), or a pre-shared key, which is \
             not supported"
        }
        AlertDescription::UnrecognisedName => "; write the name that it has as tls-hostname=NAME",
        _ => "",
    };
    format!("the server refuses with the alert {alert:?}{hint}")
}

/// A name without its kind: `disk` of `DnsName("disk")`.
fn bare(presented: &str) -> &str {
    presented
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(presented)
        .trim_matches('"')
}

fn date(time: UnixTime) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    // The formatter knows the years up to 9999.
    let last = Duration::from_secs(253_402_300_799);
    let time = time.unwrap_or(UNIX_EPOCH).min(UNIX_EPOCH + last);
    humantime::format_rfc3339_seconds(time).to_string()
}
