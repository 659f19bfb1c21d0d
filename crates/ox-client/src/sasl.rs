//! How a client authenticates by SASL, and where the exchange of a connection comes from.

#[cfg(feature = "security")]
pub use login::SaslLogin;
#[cfg(feature = "security")]
pub(crate) use source::SaslSource;
#[cfg(not(feature = "security"))]
pub(crate) use without_security::SaslSource;

#[cfg(feature = "security")]
mod login;
#[cfg(feature = "security")]
mod source;

#[cfg(not(feature = "security"))]
mod without_security {
    use crate::connect_failure::ConnectCause;
    use crate::core::SaslExchange;
    use crate::server_list::ServerAddress;
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) enum SaslSource {}

    impl SaslSource {
        pub(crate) async fn exchange(&mut self, _: &ServerAddress, _: Duration) -> Result<SaslExchange, ConnectCause> {
            match *self {}
        }
    }
}
