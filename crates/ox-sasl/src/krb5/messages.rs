//! Messages of Kerberos (RFC 4120, appendix A): the fields that authentication needs.

mod application;
mod basic;
mod kdc;

pub(super) use application::{ApRep, ApReq, Authenticator, EncApRepPart, EncTicketPart};
pub(super) use basic::{EncryptedData, Ticket, encode_checksum};
pub(super) use kdc::{
    EncKdcRepPart, EtypeInfo2, KdcOptions, KdcRep, KdcReqBody, KrbErrorMessage, PaData, encode_kdc_req,
    encode_pa_timestamp,
};

/// Version of the protocol in all messages.
const PVNO: i64 = 5;
