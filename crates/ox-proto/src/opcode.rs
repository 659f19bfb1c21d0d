//! The operations of the client port, in one table.

macro_rules! opcodes {
    ($($name:ident = $code:literal, $short:literal, $text:literal;)*) => {
        /// An operation that a client can request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum OpCode {
            $(#[doc = concat!("`", $text, "`")] $name = $code),*
        }

        impl OpCode {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The value on the wire.
            pub fn code(self) -> i32 {
                self as i32
            }

            /// Abbreviation that the `cons` command shows as `lop`.
            pub fn short(self) -> &'static str {
                match self { $(Self::$name => $short),* }
            }

            /// ZooKeeper's name of the operation.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }

        impl TryFrom<i32> for OpCode {
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

opcodes! {
    CloseSession = -11, "CLOS", "closeSession";
    CreateSession = -10, "SESS", "createSession";
    Error = -1, "NA", "error";
    Create = 1, "CREA", "create";
    Delete = 2, "DELE", "delete";
    Exists = 3, "EXIS", "exists";
    GetData = 4, "GETD", "getData";
    SetData = 5, "SETD", "setData";
    GetAcl = 6, "GETA", "getACL";
    SetAcl = 7, "SETA", "setACL";
    GetChildren = 8, "GETC", "getChildren";
    Sync = 9, "SYNC", "sync";
    Ping = 11, "PING", "ping";
    GetChildren2 = 12, "GETC", "getChildren2";
    Check = 13, "CHEC", "check";
    Multi = 14, "MULT", "multi";
    Create2 = 15, "CREA", "create2";
    Reconfig = 16, "RECO", "reconfig";
    CheckWatches = 17, "CHKW", "checkWatches";
    RemoveWatches = 18, "REMW", "removeWatches";
    CreateContainer = 19, "CREA", "createContainer";
    DeleteContainer = 20, "DELE", "deleteContainer";
    CreateTtl = 21, "CREA", "createTTL";
    MultiRead = 22, "MLTR", "multiRead";
    Auth = 100, "NA", "auth";
    SetWatches = 101, "SETW", "setWatches";
    Sasl = 102, "NA", "sasl";
    GetEphemerals = 103, "GETE", "getEphemerals";
    GetAllChildrenNumber = 104, "GETACN", "getAllChildrenNumber";
    SetWatches2 = 105, "STW2", "setWatches2";
    AddWatch = 106, "ADDW", "addWatch";
    WhoAmI = 107, "HOMI", "whoAmI";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for &op in OpCode::ALL {
            assert_eq!(OpCode::try_from(op.code()), Ok(op));
        }
        assert_eq!(OpCode::try_from(10), Err(10));
    }
}
