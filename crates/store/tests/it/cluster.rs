//! Servers of one test: a primary with TLS, and a standby that follows it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use tempfile::TempDir;

use super::{MISSING, NOBODY, PATIENCE, USER, aside, command, program};

/// Everything on loopback may connect, with and without TLS.
const ACCESS: &str =
    "local all all trust\nhost all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n";
/// The address that the certificate of the servers is not for.
pub(crate) const OTHER_NAME: &str = "127.0.0.2";

/// A PostgreSQL server, stopped when it is dropped.
pub(crate) struct Node {
    folder: TempDir,
    pub(crate) port: u16,
    has_tls: bool,
    process: Option<Child>,
}

/// Returns the certificate of an authority: the one that signed the certificate of the servers, or
/// another one.
pub(crate) fn authority(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../base/tests/tls");
    let path = fs::canonicalize(folder.join(name)).unwrap();
    path.display().to_string()
}

impl Node {
    /// Starts a primary.
    pub(crate) fn primary() -> Self {
        let mut node = Self::prepare();
        let made = node
            .command("initdb")
            .args(["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .args(["-U", USER, "-D"])
            .arg(node.data())
            .output();
        let made = made.unwrap_or_else(|error| panic!("cannot start initdb: {error}; {MISSING}"));
        assert!(made.status.success(), "{}", node.log());
        fs::write(node.data().join("pg_hba.conf"), ACCESS).unwrap();
        node.start();
        node
    }

    /// Starts a standby. From then on the primary acknowledges only what both have.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let mut node = Self::prepare();
        let source = format!("host=127.0.0.1 port={} user={USER}", primary.port);
        let copied = node
            .command("pg_basebackup")
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
            .args(["--dbname", &source, "--pgdata"])
            .arg(node.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", node.log());
        node.start();
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        primary.until("the standby follows", |client| {
            let following = "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            client.query_one(following, &[]).unwrap().get::<_, i64>(0) == 1
        });
        node
    }

    fn prepare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let is_root = is_root();
        for name in ["localhost.pem", "localhost.key"] {
            let copy = folder.path().join(name);
            fs::copy(authority(name), &copy).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
            if is_root {
                chown(&copy, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        fs::write(folder.path().join("users"), "").unwrap();
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            folder,
            port: port.local_addr().unwrap().port(),
            has_tls: true,
            process: None,
        }
    }

    fn command(&self, name: &str) -> Command {
        command(self.folder.path(), &program(name), is_root())
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn start(&mut self) {
        let (folder, port) = (self.folder.path().display(), self.port);
        let settings = [
            format!("listen_addresses=127.0.0.1,{OTHER_NAME}"),
            format!("port={port}"),
            format!("unix_socket_directories={folder}"),
            "fsync=off".to_owned(),
            "max_connections=50".to_owned(),
            "shared_buffers=32MB".to_owned(),
            format!("ssl={}", self.has_tls),
            format!("ssl_cert_file={folder}/localhost.pem"),
            format!("ssl_key_file={folder}/localhost.key"),
        ];
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        for setting in settings {
            command.args(["-c", &setting]);
        }
        self.process = Some(command.spawn().unwrap());
        self.until("the server answers", |_| true);
    }

    /// Ends the server at once, as a crash does.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let pid = process.id().to_string();
            let sent = Command::new("kill").args(["-QUIT", &pid]).status();
            sent.unwrap();
            process.wait().unwrap();
        }
    }

    /// Starts the server again without TLS.
    pub(crate) fn restart_without_tls(&mut self) {
        self.stop();
        self.has_tls = false;
        self.start();
    }

    /// Makes a standby the primary.
    pub(crate) fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    pub(crate) fn sql(&self, sql: &str) {
        aside(|| self.connect().unwrap().batch_execute(sql).unwrap());
    }

    /// Returns the number in the first row.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        aside(|| self.connect().unwrap().query_one(sql, &[]).unwrap().get(0))
    }

    fn connect(&self) -> Result<Client, postgres::Error> {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.port);
        config.user(USER).dbname("postgres").connect(NoTls)
    }

    fn until(&self, what: &str, is_so: impl Fn(&mut Client) -> bool + Send + Sync) {
        let started = Instant::now();
        let check = || self.connect().is_ok_and(|mut client| is_so(&mut client));
        while !aside(check) {
            assert!(
                started.elapsed() < PATIENCE,
                "not so: {what}: {}",
                self.log()
            );
            #[expect(clippy::disallowed_methods, reason = "nothing else to wait for")]
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}
