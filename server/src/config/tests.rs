use std::time::Duration;

use tablestone::{Database, EntityLimits};

use super::*;
use crate::net::ConnectionLimits;

fn file(text: &str) -> Result<Partial, String> {
    File::parse(text).map(File::into_partial).map_err(|error| error.to_string())
}

#[test]
fn nothing_need_be_said() {
    let config = Partial::default().resolve().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:10002");
    assert_eq!((config.admin, config.durability), (None, Durability::Sync));
    assert_eq!(config.accounts[0].name(), "devstoreaccount1");
    assert!(config.published_key && !config.is_open_to_all());
    let listen = "0.0.0.0:10002".parse().ok();
    let open = Partial { listen, ..Partial::default() }.resolve().unwrap();
    assert!(open.is_open_to_all());
    let trusted_proxies = Some(vec!["127.0.0.1".parse().unwrap()]);
    let behind = Partial { trusted_proxies, ..Partial::default() }.resolve().unwrap();
    assert!(behind.is_open_to_all());
    let own = Some(vec![("mine".into(), vec!["a2V5".into()])]);
    let closed = Partial { listen, accounts: own, ..Partial::default() }.resolve().unwrap();
    assert!(!closed.is_open_to_all());
}

#[test]
fn a_file_says_everything() {
    let partial = file(
        r#"
        listen = "0.0.0.0:80"
        admin = "[::1]:9000"
        data = "/var/lib/tablestone"
        checkpoints = "/var/backups/tablestone"
        durability = "250ms"
        memory = "1GiB"
        compression = "zstd:3"
        access_log = true
        trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]

        [tls]
        certificate = "a.pem"
        key = "b.pem"

        [[accounts]]
        name = "first"
        keys = ["a2V5"]
        [[accounts]]
        name = "second"
        keys = ["a2V5", "a2V6"]

        [limits]
        connections = 10
        head_bytes = "64KiB"
        idle_time = "1min"
        body_bytes = "2MiB"
        body_memory = 10000000
        query_time = "2s"
        page_entities = 10
        page_bytes = 70000
        transaction_operations = 11
        key_length = 12

        [limits.entity]
        properties = 13
        size = "2MiB"
        name_length = 14
        string_length = 15
        binary_length = "16KiB"
        "#,
    );
    let config = partial.unwrap().resolve().unwrap();
    assert_eq!(config.listen.port(), 80);
    assert_eq!(config.admin.unwrap().to_string(), "[::1]:9000");
    assert_eq!(config.data.to_str(), Some("/var/lib/tablestone"));
    assert_eq!(config.checkpoints, Some("/var/backups/tablestone".into()));
    assert_eq!(config.durability, Durability::Interval(Duration::from_millis(250)));
    assert_eq!((config.memory, config.access_log), (Some(1 << 30), true));
    assert_eq!(config.compression, Compression::Zstd(3));
    assert_eq!(config.tls, Some(("a.pem".into(), "b.pem".into())));
    assert_eq!(config.trusted_proxies, ["127.0.0.1", "10.0.0.0/8"].map(|it| it.parse().unwrap()));
    let names: Vec<_> = config.accounts.iter().map(Account::name).collect();
    assert_eq!(names, ["first", "second"]);
    let expected = ConnectionLimits {
        connections: 10,
        head_bytes: 64 << 10,
        idle_time: Duration::from_secs(60),
        ..ConnectionLimits::default()
    };
    assert_eq!(config.limits.connection, expected);
    assert_eq!(config.limits.body_memory, 10_000_000);
    assert_eq!(config.limits.query_time, Duration::from_secs(2));
    let Limits {
        body, page_entities, page_bytes, transaction_operations, key_length, entity, ..
    } = config.limits;
    assert_eq!((body.bytes, page_entities, page_bytes), (2 << 20, 10, 70_000));
    assert_eq!((transaction_operations, key_length), (11, 12));
    let expected = EntityLimits::default().properties(13).size(2 << 20).name_length(14);
    assert_eq!(entity, expected.string_length(15).binary_length(16 << 10));
    assert!(!format!("{config:?}").contains("a2V5"), "keys are not shown");
}

/// R-S05, R-S12: a limit is refused outside of its range, which is told with its name and what it was; at each end the
/// engine takes it.
#[test]
fn r_s12_limits_have_ranges() {
    let directory = tempfile::tempdir().unwrap();
    for (setting, least, most) in [
        ("connections", 1, 1 << 20),
        ("head_bytes", 8 << 10, 16 << 20),
        ("body_bytes", 1_024, 1 << 30),
        ("page_entities", 1, 10_000),
        ("page_bytes", 1, 1 << 30),
        ("transaction_operations", 1, 10_000),
        ("key_length", 1, 5_461),
        ("entity.properties", 1, 255),
        ("entity.size", 1, 32 << 20),
        ("entity.name_length", 1, 65_536),
        ("entity.string_length", 1, 64 << 20),
        ("entity.binary_length", 1, 64 << 20),
    ] {
        let limits = |value: usize| {
            let memory = "limits.body_memory = '2GiB'";
            let file = File::parse(&format!("{memory}\nlimits.{setting} = {value}")).unwrap();
            file.limits().map_err(|error| error.to_string())
        };
        for value in [0, least - 1, most + 1] {
            let expected = format!("limits.{setting} is {value}: expected {least} to {most}");
            assert_eq!(limits(value), Err(expected));
        }
        for value in [least, most] {
            let options = limits(value).unwrap().options();
            Database::open(directory.path(), options).unwrap().close().unwrap();
        }
    }
    let resolved = file("[limits]\nkey_length = 0").unwrap().resolve();
    assert!(resolved.is_err(), "as the server resolves it");
}

/// R-S12: so are limits of time, whichever way they are written.
#[test]
fn r_s12_times_have_a_range() {
    for setting in
        ["head_time", "idle_time", "write_time", "shutdown_time", "body_stall", "query_time"]
    {
        let limits = |value: &str| {
            let file = File::parse(&format!("limits.{setting} = {value}"));
            let limits = file.map_err(|error| error.to_string())?.limits();
            limits.map(|_| ()).map_err(|error| error.to_string())
        };
        for (value, shown) in [
            ("0", "0ns"),
            ("31536001", "31536001s"),
            ("'8761h'", "31539600s"),
            ("9223372036854775807", "9223372036854775807s"),
        ] {
            let expected = format!("limits.{setting} is {shown}: expected 1ms to 8760h, a year");
            assert_eq!(limits(value), Err(expected));
        }
        assert!(limits("'0s'").unwrap_err().contains("\"0s\" is no time"));
        for value in ["1", "'1ms'", "'8760h'", "31536000"] {
            assert_eq!(limits(value), Ok(()), "{value}");
        }
    }
}

/// R-S12: with little memory bodies have a part of it, with room for the largest; what is said holds.
#[test]
fn r_s12_bodies_have_a_part_of_little_memory() {
    let body_memory = |text: &str, process: Option<u64>| {
        let config = file(text).unwrap().resolve_within(process).unwrap();
        assert_eq!(config.memory, None, "the engine knows");
        config.limits.body_memory
    };
    assert_eq!(body_memory("", None), 256 << 20);
    assert_eq!(body_memory("", Some(64 << 30)), 256 << 20);
    assert_eq!(body_memory("", Some(512 << 20)), 128 << 20);
    assert_eq!(body_memory("", Some(16 << 20)), 8 << 20);
    assert_eq!(body_memory("limits.body_bytes = '100MiB'", Some(512 << 20)), 200 << 20);
    assert_eq!(body_memory("limits.body_memory = '200MiB'", Some(512 << 20)), 200 << 20);
}

/// The file that is shipped says what holds without it.
#[test]
fn the_shipped_file_has_the_defaults() {
    let shipped = file(include_str!("../../packaging/tablestone.toml")).unwrap();
    let (shipped, config) = (shipped.resolve().unwrap(), Partial::default().resolve().unwrap());
    assert_eq!(format!("{shipped:?}"), format!("{config:?}"));
    let commented = include_str!("../../packaging/tablestone.toml");
    let everything: String = commented
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|line| line.contains(['=', '[']))
                .unwrap_or(line)
                .to_owned()
                + "\n"
        })
        .collect();
    let config = file(&everything.replace('…', "a2V5")).unwrap().resolve().unwrap();
    assert_eq!(config.accounts[0].name(), "myaccount");
    assert!(config.admin.is_some() && config.tls.is_some());
}

/// What is wrong with a file is said without what may be a key.
#[test]
fn no_key_is_shown() {
    for text in [
        "[[accounts]]\nname = 'mine'\nkeys = 's3cret'",
        "[[accounts]]\nname = 'mine'\nkeys = ['s3cret', 5]",
        "[[accounts]]\nname = 'mine'\nkey = 's3cret'",
        "[[accounts]]\nname = 'mine'\nkeys = ['s3cret",
        "[[accounts]]\nname = 'mine'\nkeys = [s3cret]",
        "accounts = 'mine:s3cret'",
        "accounts = ['mine:s3cret']",
        "access_log = 's3cret \", expected'",
    ] {
        let error = file(text).unwrap_err();
        assert!(error.starts_with("line ") && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn the_command_line_goes_before_the_file() {
    let said = Partial { listen: "127.0.0.1:1".parse().ok(), ..Partial::default() };
    let config = said.or(file("listen = '127.0.0.1:2'\ndata = 'd'").unwrap()).resolve().unwrap();
    assert_eq!((config.listen.port(), config.data.to_str()), (1, Some("d")));
}

#[test]
fn what_cannot_be_says_where() {
    for (text, expected) in [
        ("lisen = '127.0.0.1:1'", "unknown field `lisen`"),
        (
            "listen = 'here'",
            "\"here\" is no address to listen on: expected an IP address and a port",
        ),
        ("memory = '1 elephant'", "\"1 elephant\" is no size"),
        ("durability = 'maybe'", "\"maybe\" is no durability"),
        ("compression = 'zip'", "\"zip\" is no compression"),
        ("[limits]\nhead_time = 'soon'", "\"soon\" is no time"),
        ("[limits]\nheads = 1", "unknown field `heads`"),
        ("[limits.entity]\nlength = 1", "unknown field `length`"),
        ("[limits]\nkey_length = -1", "invalid value: integer `-1`"),
        ("[limits]\nkey_length = '1KiB'", "invalid type"),
        ("limits = 5", "invalid type: integer `5`, expected a table"),
        ("limits.entity = 5", "invalid type: integer `5`, expected a table"),
        ("tls = true", "invalid type: boolean `true`, expected a table"),
        ("accounts = [5]", "invalid type: integer `5`, expected a table"),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(expected) && error.contains("line"), "{error}");
    }
    let resolve = |text| file(text).unwrap().resolve().unwrap_err().to_string();
    let account =
        |name, keys| resolve(&*format!("[[accounts]]\nname = '{name}'\nkeys = [{keys}]").leak());
    assert!(account("No", "'a2V5'").contains("\"No\" is no account's name"));
    assert!(account("mine", "").contains("account mine has no key"));
    assert!(resolve("accounts = []").contains("there is no account"));
    assert!(resolve("checkpoints = 'backups'").contains("POST /checkpoint of admin"));
    assert_eq!(resolve("memory = '0'"), "memory is 0 bytes: expected at least 65536");
    assert!(account("mine", "'secret!'").contains("base64"));
    assert!(!account("mine", "'secret!'").contains("secret!"));
    let small = resolve("limits = { body_memory = '1MiB' }");
    assert!(small.contains("1048576 bytes: expected at least 8388608"), "{small}");
    let large = resolve("limits = { body_bytes = '129MiB' }");
    assert!(large.contains("268435456 bytes: expected at least 270532608"), "{large}");
    assert!(resolve("tls = { certificate = 'a' }").contains("the key is missing"));
}
