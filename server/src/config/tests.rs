use std::time::Duration;

use super::*;

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
        durability = "250ms"
        memory = "1GiB"
        compression = "zstd:3"
        access_log = true

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
        body_memory = 10000000
        query_time = "2s"
        "#,
    );
    let config = partial.unwrap().resolve().unwrap();
    assert_eq!(config.listen.port(), 80);
    assert_eq!(config.admin.unwrap().to_string(), "[::1]:9000");
    assert_eq!(config.data.to_str(), Some("/var/lib/tablestone"));
    assert_eq!(config.durability, Durability::Interval(Duration::from_millis(250)));
    assert_eq!((config.memory, config.access_log), (1 << 30, true));
    assert_eq!(config.compression, Compression::Zstd(3));
    assert_eq!(config.tls, Some(("a.pem".into(), "b.pem".into())));
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
    assert!(!format!("{config:?}").contains("a2V5"), "keys are not shown");
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
        ("listen = 'here'", "invalid socket address"),
        ("memory = '1 elephant'", "\"1 elephant\" is no size"),
        ("durability = 'maybe'", "\"maybe\" is no durability"),
        ("compression = 'zip'", "\"zip\" is no compression"),
        ("[limits]\nhead_time = 'soon'", "\"soon\" is no time"),
        ("[limits]\nheads = 1", "unknown field `heads`"),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(expected) && error.contains("line"), "{error}");
    }
    let resolve = |text| file(text).unwrap().resolve().unwrap_err().to_string();
    let account =
        |name, keys| resolve(&*format!("[[accounts]]\nname = '{name}'\nkeys = [{keys}]").leak());
    assert!(account("No", "'a2V5'").contains("\"No\" is no account's name"));
    assert!(account("mine", "").contains("account mine has no key"));
    assert!(account("mine", "'secret!'").contains("base64"));
    assert!(!account("mine", "'secret!'").contains("secret!"));
    let small = resolve("limits = { body_memory = '1MiB' }");
    assert!(small.contains("1048576 bytes: expected at least 8388608"), "{small}");
    assert!(resolve("tls = { certificate = 'a' }").contains("the key is missing"));
}
