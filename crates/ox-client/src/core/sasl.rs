//! One SASL exchange at the client's side: tokens in, tokens out. Without the feature `security`, there is none.

#[cfg(feature = "security")]
pub(crate) use with_security::SaslExchange;
#[cfg(not(feature = "security"))]
pub(crate) use without_security::SaslExchange;

/// What follows a reply of the server.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "security"), expect(dead_code, reason = "no exchange makes one"))]
pub(crate) enum SaslStep {
    Send(Vec<u8>),
    Complete,
}

#[cfg(feature = "security")]
mod with_security {
    use super::SaslStep;
    use ox_sasl::digest_md5::CLIENT_PORT;
    use ox_sasl::digest_md5::initiator::DigestInitiator;
    use ox_sasl::gssapi::GssapiInitiator;
    use ox_sasl::jaas::modules::DigestCredentials;

    /// Random bytes of a nonce of DIGEST-MD5.
    const NONCE_BYTES: usize = 30;

    #[derive(Debug)]
    pub(crate) struct SaslExchange {
        mechanism: Mechanism,
        first_token: Vec<u8>,
        /// Whether only the server's confirmation is missing, a null token.
        awaits_confirmation: bool,
    }

    #[derive(Debug)]
    enum Mechanism {
        DigestMd5 {
            initiator: DigestInitiator,
            nonce: [u8; NONCE_BYTES],
        },
        /// In a box, because few clients use Kerberos.
        Gssapi(Box<GssapiInitiator>),
    }

    impl SaslExchange {
        /// `nonce` are fresh random bytes.
        pub(crate) fn digest_md5(credentials: DigestCredentials, nonce: [u8; NONCE_BYTES]) -> Self {
            let initiator = DigestInitiator::new(CLIENT_PORT, credentials);
            let mechanism = Mechanism::DigestMd5 { initiator, nonce };
            Self { mechanism, first_token: Vec::new(), awaits_confirmation: false }
        }

        pub(crate) fn gssapi(initiator: GssapiInitiator, first_token: Vec<u8>) -> Self {
            Self { mechanism: Mechanism::Gssapi(Box::new(initiator)), first_token, awaits_confirmation: false }
        }

        pub(crate) fn first_token(&mut self) -> Vec<u8> {
            std::mem::take(&mut self.first_token)
        }

        /// Processes the token of a successful reply. The error says why the exchange failed.
        pub(crate) fn on_token(&mut self, token: Option<&[u8]>) -> Result<SaslStep, String> {
            let Some(token) = token else {
                let hint = "the server does not offer SASL, or does not accept this client";
                return if self.awaits_confirmation { Ok(SaslStep::Complete) } else { Err(hint.to_owned()) };
            };
            if self.awaits_confirmation {
                return Err("the server sent a token after the end of the exchange".to_owned());
            }
            let step = match &mut self.mechanism {
                Mechanism::DigestMd5 { initiator, nonce } => {
                    initiator.step(token, &mut |bytes| bytes.copy_from_slice(&nonce[..bytes.len()]))
                }
                Mechanism::Gssapi(initiator) => initiator.step(token),
            };
            let step = step.map_err(|error| error.to_string())?;
            self.awaits_confirmation = step.is_complete;
            Ok(step.token.map_or(SaslStep::Complete, SaslStep::Send))
        }
    }
}

#[cfg(not(feature = "security"))]
mod without_security {
    use super::SaslStep;

    #[derive(Debug)]
    pub(crate) enum SaslExchange {}

    impl SaslExchange {
        pub(crate) fn first_token(&mut self) -> Vec<u8> {
            match *self {}
        }

        pub(crate) fn on_token(&mut self, _: Option<&[u8]>) -> Result<SaslStep, String> {
            match *self {}
        }
    }
}
