//! Error codes of the client protocol. An unknown code breaks clients, so we never invent one.

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[repr(i32)]
        pub enum ErrorCode {
            $(#[error($text)] #[doc = $text] $name = $code),*
        }

        impl ErrorCode {
            /// The value on the wire.
            pub fn code(self) -> i32 {
                self as i32
            }

            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        impl TryFrom<i32> for ErrorCode {
            type Error = i32;
            fn try_from(code: i32) -> Result<Self, i32> {
                match code {
                    $($code => Ok(Self::$name),)*
                    other => Err(other),
                }
            }
        }
    };
}

error_codes! {
    RuntimeInconsistency = -2, "not evaluated: an earlier operation of the multi failed";
    MarshallingError = -5, "request cannot be decoded";
    Unimplemented = -6, "operation is not implemented";
    BadArguments = -8, "invalid arguments";
    UnknownSession = -12, "unknown session";
    NewConfigNoQuorum = -13, "no quorum of the new configuration is connected and synced";
    ReconfigInProgress = -14, "another reconfiguration is in progress";
    NoNode = -101, "no such node";
    NoAuth = -102, "not authorized";
    BadVersion = -103, "version does not match";
    NoChildrenForEphemerals = -108, "ephemeral nodes cannot have children";
    NodeExists = -110, "node exists";
    NotEmpty = -111, "node has children";
    SessionExpired = -112, "session expired";
    InvalidAcl = -114, "invalid ACL";
    AuthFailed = -115, "authentication failed";
    SessionMoved = -118, "session moved to another connection";
    NotReadOnly = -119, "not available on a read-only server";
    EphemeralOnLocalSession = -120, "ephemeral node on a local session";
    NoWatcher = -121, "no such watcher";
    ReconfigDisabled = -123, "reconfiguration is disabled";
    SessionClosedRequireSaslAuth = -124, "authentication is required";
    QuotaExceeded = -125, "quota exceeded";
    ThrottledOp = -127, "request waited too long and was not executed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::try_from(code.code()), Ok(code));
        }
        assert_eq!(ErrorCode::try_from(-126), Err(-126));
    }
}
