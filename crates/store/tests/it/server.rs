//! A PostgreSQL server for the tests: started by the first test that needs it, shared by all, and
//! stopped by itself when no test has used it for a while.
//!
//! Tests run in processes of their own, so the server cannot belong to one of them. Each process
//! holds a shared lock on the file `users`; a watcher stops the server and deletes its data when it
//! has found no such lock for twenty seconds.

#[path = "cluster.rs"]
pub(crate) mod cluster;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use uuid::Uuid;

/// PostgreSQL refuses to run as root; this user owns nothing.
const NOBODY: u32 = 65_534;
const USER: &str = "sortie";
const SOCKET: &str = ".s.PGSQL.5432";
const MISSING: &str = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql)";
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the server `$1 -D $2` until the file `$3` has been free for twenty seconds.
const WATCH: &str = r#"
"$1" -D "$2" -k "$(dirname "$2")" -c listen_addresses= -c fsync=off -c max_connections=100 \
    -c shared_buffers=32MB &
server=$!
idle=0
while kill -0 $server 2>/dev/null; do
    sleep 1
    if flock -n -x "$3" true; then idle=$((idle + 1)); else idle=0; fi
    if [ $idle -ge 20 ]; then
        # The lock keeps new users waiting until the server is gone.
        flock -n -x "$3" sh -c "
            kill -INT $server
            while kill -0 $server 2>/dev/null; do sleep 0.1; done
            rm -rf '$2'" && exit
        idle=0
    fi
done
"#;

/// A new, empty schema on the server.
pub(crate) struct Schema {
    pub(crate) name: String,
    /// The folder of the server's socket.
    pub(crate) folder: PathBuf,
}

impl Schema {
    /// Returns the address of the schema, through the socket of the server or of a proxy in `folder`.
    pub(crate) fn address(&self, folder: &Path) -> String {
        let host = folder.display().to_string().replace('/', "%2F");
        format!(
            "postgres://{USER}@{host}/postgres?options=-csearch_path%3D{}",
            self.name
        )
    }

    /// Returns the number in the first row.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        aside(|| {
            let mut client = connect(&self.folder);
            let path = format!("SET search_path = {}", self.name);
            client.batch_execute(&path).unwrap();
            client.query_one(sql, &[]).unwrap().get(0)
        })
    }

    /// Runs SQL beside the store.
    pub(crate) fn sql(&self, sql: &str) {
        let sql = format!("SET search_path = {}; {sql}", self.name);
        aside(|| connect(&self.folder).batch_execute(&sql).unwrap());
    }
}

/// Creates a schema for one test; starts the server if it does not run.
pub(crate) fn schema() -> Schema {
    static FOLDER: OnceLock<(PathBuf, File)> = OnceLock::new();
    let (folder, _) = FOLDER.get_or_init(|| aside(use_server));
    let name = format!("t{}", Uuid::now_v7().simple());
    let sql = format!("CREATE SCHEMA {name}");
    aside(|| connect(folder).batch_execute(&sql).unwrap());
    Schema {
        name,
        folder: folder.clone(),
    }
}

/// The client blocks, which a thread of an async runtime must not do.
pub(crate) fn aside<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(job).join().unwrap())
}

fn connect(folder: &Path) -> Client {
    let mut config = postgres::Config::new();
    config.host_path(folder).user(USER).dbname("postgres");
    config.connect(NoTls).unwrap()
}

/// Returns the folder of the socket, and the lock that keeps the server running.
fn use_server() -> (PathBuf, File) {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let folder = std::env::temp_dir().join(format!("sortie-test-postgres-{uid}"));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    if uid == 0 {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        options.open(folder.join(name)).unwrap()
    };
    let starting = open("starting");
    starting.lock().unwrap();
    let users = open("users");
    users.lock_shared().unwrap();
    if !answers(&folder) {
        start(&folder, uid == 0);
    }
    (folder, users)
}

fn answers(folder: &Path) -> bool {
    let mut config = postgres::Config::new();
    config.host_path(folder).user(USER).dbname("postgres");
    UnixStream::connect(folder.join(SOCKET)).is_ok() && config.connect(NoTls).is_ok()
}

#[expect(clippy::zombie_processes, reason = "the server outlives the test")]
fn start(folder: &Path, is_root: bool) {
    let data = folder.join("data");
    if !data.join("postgresql.conf").exists() {
        fs::remove_dir_all(&data).ok();
        let made = command(folder, &program("initdb"), is_root)
            .args(["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .args(["-U", USER, "-D"])
            .arg(&data)
            .output()
            .unwrap_or_else(|error| panic!("cannot start initdb: {error}; {MISSING}"));
        assert!(made.status.success(), "{made:?}");
    }
    command(folder, Path::new("/bin/sh"), is_root)
        .args(["-c", WATCH, "watch"])
        .arg(program("postgres"))
        .arg(&data)
        .arg(folder.join("users"))
        .process_group(0)
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !answers(folder) {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(started.elapsed() < PATIENCE, "no server: {}", log());
        #[expect(clippy::disallowed_methods, reason = "nothing else to wait for")]
        thread::sleep(Duration::from_millis(50));
    }
}

/// A program that runs as a user that PostgreSQL accepts, and keeps no pipe of the test open.
fn command(folder: &Path, program: &Path, is_root: bool) -> Command {
    let log = File::create(folder.join("log")).unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    if is_root {
        chown(folder.join("users"), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Finds a program of PostgreSQL 15 or newer, where Debian puts it or on the `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|version| *version >= 15)
        .max();
    let folder = newest.map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
}
