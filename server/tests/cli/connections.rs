//! Connections to a server: as many as there are (R-S12), to whom they are made, and what one that breaks leaves open.

use std::fmt::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Server, Shell, THREE, server_that};

#[test]
fn r_s12_an_import_makes_do_with_the_connections_that_there_are() {
    let shell = Shell::new();
    let mut input = String::new();
    for number in 1_000..3_000 {
        writeln!(input, r#"{{"PartitionKey":"{number}","RowKey":"r"}}"#).unwrap();
    }
    shell.write("rows.jsonl", &input);
    for connections in ["1", "8"] {
        shell.write("few.toml", &format!("limits.connections = {connections}"));
        let server = Server::with(&shell, connections, &["--config", "few.toml"]);
        for mode in ["insert", "replace", "merge"] {
            let import = ["import", "rows.jsonl", "--table", mode, "--mode", mode];
            let more = ["--connections", "256", "--url", &server.url];
            let said = shell.out(&[&import[..], &more].concat());
            assert!(said.starts_with("2000 rows"), "{said}");
        }
        let exported = shell.out(&["export", "--table", "insert", "--url", &server.url]);
        assert_eq!(exported, input);
    }
}

/// A server with a certificate of its own is trusted when its certificate is given.
#[test]
fn a_certificate_must_be_trusted() {
    let shell = Shell::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let (certificate, key) = (data.join("localhost.pem"), data.join("localhost.key"));
    let certificate = certificate.to_str().unwrap();
    let tls = ["--tls-certificate", certificate, "--tls-key", key.to_str().unwrap()];
    let server = Server::with(&shell, "data", &tls);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let tables = ["tables", "--json", "--url", &server.url];
    assert_eq!(shell.out(&[&tables[..], &["--tls-certificate", certificate]].concat()), "");
    let unknown = shell.run(&tables).failure(1);
    let advice = " (--tls-certificate names the certificate of a server that made its own)\n";
    assert!(unknown.ends_with(advice), "{unknown}");
    let plain = shell.run(&["tables", "--url", &server.url.replace("https:", "http:")]).failure(1);
    assert!(plain.ends_with(" (it may serve https, not http)\n"), "{plain}");
    let other = Server::start(&shell, "plain");
    let plain = shell.run(&["tables", "--url", &other.url.replace("http:", "https:")]).failure(1);
    assert!(plain.ends_with(" (it may serve http, not https)\n"), "{plain}");
    let none = shell.run(&[&tables[..], &["--tls-certificate", "none.pem"]].concat()).failure(1);
    assert!(none.starts_with("error: cannot read a certificate from \"none.pem\""), "{none}");
}

#[test]
fn what_a_broken_connection_leaves_open_is_said() {
    let shell = Shell::new();
    shell.write("three.jsonl", THREE);
    let (url, _) =
        server_that(|line| (!line.contains("/$batch ")).then_some(("204 No Content", "")));
    let failure = shell.run(&["import", "three.jsonl", "--table", "abc", "--url", &url]);
    let failure = failure.failure(1);
    assert!(failure.starts_with("error: no server answers at http://127.0.0.1:"), "{failure}");
    assert!(failure.contains("limits.connections"), "{failure}");
    assert!(
        failure.ends_with("\n0 rows were written; whether 3 more were is not known\n"),
        "{failure}"
    );
}

#[test]
fn what_a_failing_server_leaves_open_is_said() {
    let shell = Shell::new();
    shell.write("three.jsonl", THREE);
    for (status, end) in [
        ("500 Internal Server Error", "\n0 rows were written; whether 3 more were is not known\n"),
        ("503 Service Unavailable", "\n0 rows were written\n"),
    ] {
        let answer = r#"{"odata.error":{"code":"Any","message":{"value":"It fails."}}}"#;
        let (url, _) = server_that(move |line| {
            Some(if line.contains("/$batch ") { (status, answer) } else { ("204 No Content", "") })
        });
        let failure = shell.run(&["import", "three.jsonl", "--table", "abc", "--url", &url]);
        let failure = failure.failure(1);
        assert!(failure.contains("Any: It fails."), "{failure}");
        assert!(failure.ends_with(end), "{failure}");
    }
}

/// R-S12: a server that has no connection left says that it is busy in a status alone, and is asked again.
#[test]
fn r_s12_a_server_without_a_connection_left_is_asked_again() {
    let shell = Shell::new();
    shell.write("one.toml", "limits.connections = 1");
    let server = Server::with(&shell, "served", &["--config", "one.toml"]);
    let taken = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let freed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(taken);
    });
    let tables = shell.out(&["tables", "--json", "--url", &server.url]);
    assert_eq!(tables, "");
    freed.join().unwrap();

    // Or says nothing, where too many others are told so.
    let cuts = AtomicU32::new(3);
    let (url, asked) = server_that(move |_| {
        let left =
            cuts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.is_err().then_some(("200 OK", r#"{"value":[]}"#))
    });
    assert_eq!(shell.out(&["tables", "--json", "--url", &url]), "");
    assert_eq!(asked.try_iter().count(), 4);

    let (url, _) = server_that(|_| Some(("502 Bad Gateway", "<html>")));
    let failure = shell.run(&["tables", "--url", &url]).failure(1);
    assert!(failure.contains("status 502 Bad Gateway without an error in JSON"), "{failure}");
}
