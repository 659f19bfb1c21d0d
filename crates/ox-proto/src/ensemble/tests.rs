use super::*;
use proptest::prelude::*;

/// Parses `text` and compares its printed form, or the error.
fn check(text: &str, expected: &str) {
    let shown = match Ensemble::parse(text, Addresses::Several) {
        Ok(ensemble) => ensemble.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(shown == expected || (shown.starts_with(expected) && !expected.contains('\n')), "{text:?}: {shown}");
}

fn parse(text: &str) -> Ensemble {
    Ensemble::parse(text, Addresses::Several).unwrap()
}

const TWO: &str = "server.1=a:1:2:participant\nserver.2=b:1:2:observer;0.0.0.0:5\n";

#[test]
fn text_is_parsed_as_java_properties() {
    check(&format!("{TWO}version=1f"), &format!("{TWO}version=1f"));
    check("#x\nserver.2 : b:1:\\\n  2:OBSERVER;5\r!y\nserver.1\ta:1:2\n\n", &format!("{TWO}version=0"));
    check("server.1=x:1:2\nserver.1=a\\u003a1:2\nserver.2=b:1:2:observer;5", &format!("{TWO}version=0"));
}

#[test]
fn ids_are_printed_in_order() {
    check(
        "server.10=a:1:2\nserver.9=b:1:2\nversion=0",
        "server.9=b:1:2:participant\nserver.10=a:1:2:participant\nversion=0",
    );
}

#[test]
fn groups_and_weights_are_validated() {
    let servers = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer\n";
    check(
        &format!("{servers}group.2=2\ngroup.1=1:3\nweight.3=0\nweight.2=5"),
        &format!("{servers}group.1=1:3\ngroup.2=2\nweight.1=1\nweight.2=5\nweight.3=0\nversion=0"),
    );
    check(&format!("{servers}group.1=1"), "Server 2is not in a group");
    check(&format!("{servers}weight.1=1"), "Server 1is not in a group");
    check(&format!("{servers}group.1=1:2\ngroup.2=2"), "Server 2is in multiple groups");
    check(&format!("{servers}group.1=1:2:3"), "server 3 is in a group but is not a participant");
    check(&format!("{servers}group.1=1:2:7"), "server 7 is in a group but is not a participant");
    check(&format!("{servers}group.1=1:2\nweight.1=-1"), "the weight of server 1");
    let large = i64::MAX;
    check(&format!("{servers}group.1=1:2\nweight.1={large}"), "the weight of server 2");
    check(&format!("{servers}group=1:2"), "For input string: \"group\"");
    check(&format!("{servers}group.1=1:2:"), servers.lines().next().unwrap());
    let weighted = parse(&format!("{servers}group.1=1:2\nweight.1=0"));
    assert_eq!([1, 2, 3].map(|id| weighted.weight(ServerId(id))), [0, 1, 0]);
}

#[test]
fn invalid_text_is_refused() {
    check("", "an ensemble needs at least one participant");
    check("server.1=a:1:2:observer", "an ensemble needs at least one participant");
    check("server.x=", "For input string: \"x\"");
    check("server.1=", " does not have the form");
    check("server.1=a:1:2;3;4", "a:1:2;3;4 does not have the form");
    check("server.1=a:1:2\nclientPort=5", "Unrecognised parameter: clientPort");
    check("server.1=a:1:2\nversion=g", "For input string: \"g\"");
    check("server.1=a:1:2\nversion=", "For input string: \"\"");
    check("server.1=a:1:2\nversion=-1", "version -1 is negative");
    check("server.1=a:1:2\nversion=ffffffffffffffff", "For input string");
    check("server.-1=a:1:2", "server.-1 is not a valid server id");
    check("server.9223372036854775807=a:1:2", "server.9223372036854775807 is not a valid server id");
    check("server.1=a\\n:1:2", "host \"a\\n\" of server.1");
    check("server.1=a:1:2;\\u00e4:3", "host \"\u{e4}\" of server.1");
    check("server.1=a:1:2|a:3:2", "server.1 needs as many");
    check("server.1=h:1:2|h:1:3|i:4:5|i:6:5", "server.1 needs as many");
    check("server.1=\\u12", "Malformed \\uxxxx encoding in line 1");
}

#[test]
fn roles_separate_voters_from_observers() {
    let ensemble = parse("server.3=a:1:2\nserver.1=b:1:2:observer\nserver.2=c:1:2");
    assert_eq!(ensemble.voters().collect::<Vec<_>>(), [ServerId(2), ServerId(3)]);
    assert_eq!(ensemble.observers().collect::<Vec<_>>(), [ServerId(1)]);
    assert_eq!(ensemble.with_version(5).unwrap().version(), 5);
}

#[test]
fn configurations_compare_as_in_apache() {
    let base = "server.1=a:1:2\nserver.2=b:1:2";
    let cases = [
        ("server.1=x:1:2", true),
        ("server.1=a:1:2\nserver.2=B:1:2\nversion=5", true),
        ("server.1=a:1:2\nserver.2=b:1:2:observer\nversion=5", false),
        ("server.1=a:1:2\nversion=5", false),
        ("server.1=a:1:2\nserver.3=b:1:2\nversion=5", false),
        ("server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1:2", false),
    ];
    for (other, same) in cases {
        assert_eq!(parse(base).is_same(&parse(other)), same, "{other}");
        assert_eq!(parse(other).is_same(&parse(base)), same, "{other}");
    }
    let grouped = format!("{base}\ngroup.1=1:2\n");
    let weighted = |weight| parse(&format!("{grouped}version=5\nweight.1={weight}"));
    assert!(parse(&grouped).is_same(&weighted(1)));
    assert!(!parse(&grouped).is_same(&weighted(2)));
}

/// The printed form has the pairs 3:4 and 2:2, which no server could read.
#[test]
fn ports_that_collide_when_printed_are_refused() {
    let expected = "Client and election port must be different! Please update the configuration file on server.2";
    check("server.1=a:1:2\nserver.2=b:3:4|b:3:2|b:2:4", expected);
}

fn line() -> impl Strategy<Value = String> {
    let host = "([aB]{1,2}|\\[::1\\]|\\[fe80::1%3\\]|127\\.0\\.0\\.1|)";
    let address = format!("{host}:[1-3]:[2-4](:participant|:Observer)?");
    let server = format!("server\\.[0-9]=({address})(\\|{address}){{0,2}}(;({host}:)?[0-9]{{1,4}})?");
    prop_oneof![
        6 => proptest::string::string_regex(&server).unwrap(),
        2 => "(group|weight)\\.[1-3]=[1-5](:[1-5]){0,2}",
        1 => "version=[0-9a-f]{1,8}",
        1 => "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Ensemble::parse(&text, Addresses::Several);
    }

    #[test]
    fn printed_ensemble_parses_back(lines in proptest::collection::vec(line(), 1..8)) {
        if let Ok(ensemble) = Ensemble::parse(&lines.join("\n"), Addresses::Several) {
            let printed = ensemble.to_string();
            let again = parse(&printed);
            prop_assert_eq!(again.to_string(), printed);
            let other = again.with_version(ensemble.version() + 1).unwrap();
            prop_assert!(ensemble.is_same(&other), "{ensemble:?} {other:?}");
        }
    }
}
