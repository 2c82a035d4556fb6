//! Whatever dies, in whatever order: callers get an error, the next call works, and no process is left.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured_ms};
use proto_tests::shim::{kind_of, structured};
use proto_tests::wait::{becomes, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins, procs};
use rustix::process::{Pid, Signal, kill_process};

/// Has the child start grandchildren of every kind, and returns their pids.
fn fork(shim: &mut Shim, child: &str) -> Vec<i32> {
    let answer = structured(&shim.call(child, "fork", "{}"));
    let pids: Vec<_> = answer["pids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pid| i32::try_from(pid.as_i64().unwrap()).unwrap())
        .collect();
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|pid| procs::alive(*pid)), "{pids:?}");
    pids
}

#[track_caller]
fn all_gone(pids: &[i32], bound: Duration) {
    let living = || pids.iter().filter(|pid| procs::alive(**pid)).count();
    until_true("every grandchild to go", bound, || living() == 0);
}

/// Five times the promised limits, because the machine may be busy.
const TOLD: Duration = Duration::from_secs(5);
const GONE: Duration = Duration::from_secs(10);

/// How often the daemon is killed; `.ci/long` sets more.
fn kills() -> u32 {
    std::env::var("SWITCHBOARD_DAEMON_KILLS").map_or(3, |text| text.parse().expect("a number"))
}

#[test]
fn all_calls_of_a_killed_daemon_are_answered_and_no_process_is_left() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("stubborn", &["ignores-term"]);
    let mut daemon = Some(home.daemon());
    let mut shims: Vec<Shim> = (0..8).map(|_| home.shim()).collect();
    for round in 0..kills() {
        let mut pids = fork(&mut shims[0], "k");
        pids.extend(fork(&mut shims[1], "stubborn"));
        pids.extend(home.children().iter().map(|process| process.pid));
        let ids: Vec<Vec<u64>> = shims
            .iter_mut()
            .map(|shim| (0..8).map(|_| shim.start_call("k", "hang", "{}")).collect())
            .collect();
        until_true("the calls to arrive", TEST_TIMEOUT, || {
            shims[0].call("k", "received", "{}").matches("hang").count() >= 64
        });

        let killed = Instant::now();
        match daemon.take() {
            Some(mut daemon) => daemon.kill(),
            // From the second round on, a shim has started the daemon.
            None => {
                let running = home.daemons();
                assert_eq!(running.len(), 1, "{running:#?}");
                kill_process(Pid::from_raw(running[0].pid).unwrap(), Signal::KILL).unwrap();
            }
        }
        for (shim, ids) in shims.iter_mut().zip(&ids) {
            for id in ids {
                let left = TOLD.saturating_sub(killed.elapsed());
                let answer = shim.answer_within(&id.to_string(), left);
                let answer =
                    answer.unwrap_or_else(|| panic!("round {round}: no answer to {id} within {TOLD:?}"));
                assert_eq!(kind_of(&answer).as_deref(), Some("daemon_gone"), "{answer}");
                assert!(answer.contains("may or may not have run"), "{answer}");
            }
        }
        measured_ms("R4", "last of 64 callers knows", killed.elapsed());
        all_gone(&pids, GONE.saturating_sub(killed.elapsed()));
        measured_ms("R4", "last process is gone", killed.elapsed());
        let next = Instant::now();
        for (number, shim) in shims.iter_mut().enumerate() {
            assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"), "round {round}");
            if number == 0 {
                measured_ms("R4", "next call is served", next.elapsed());
            }
        }
        counted("R4", "kills", 1);
        assert_eq!(home.daemons().len(), 1);
    }
}

#[test]
fn a_list_request_is_repeated_after_the_daemon_was_killed() {
    let home = Home::new();
    home.child("slow", &["slow-initialize", "1500"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_request("tools/list", "{}");
    daemon.kill();
    let answer = shim.answer_to(&id.to_string());
    assert!(answer.contains("slow_suite"), "{answer}");
}

#[test]
fn a_terminated_daemon_leaves_no_process() {
    let home = Home::new();
    for (name, behaviour) in
        [("a", "echo"), ("b", "ignores-eof"), ("c", "ignores-term"), ("d", "forks-at-start")]
    {
        home.child(name, &[behaviour]);
    }
    let mut daemon = home.daemon();
    let mut pids = Vec::new();
    {
        let mut shim = home.shim();
        for child in ["a", "b", "c", "d"] {
            pids.extend(fork(&mut shim, child));
        }
    }
    pids.extend(procs::descendants(daemon.pid()).iter().map(|process| process.pid));
    assert!(pids.len() >= 28, "{pids:?}");
    let asked = Instant::now();
    daemon.signal(Signal::TERM);
    let status = daemon.ended(TEST_TIMEOUT);
    assert_eq!(status.code(), Some(0), "{status}: {}", daemon.log());
    assert!(asked.elapsed() < Duration::from_secs(15), "the promise is 5 s: {:?}", asked.elapsed());
    all_gone(&pids, GONE);
    measured_ms("R20", "daemon and all processes are gone", asked.elapsed());
}

#[test]
fn a_child_that_dies_leaves_no_grandchildren() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for subtool in ["crash", "die"] {
        let pids = fork(&mut shim, "k");
        shim.call("k", subtool, r#"{"code":0}"#);
        all_gone(&pids, GONE);
    }
    let pids = fork(&mut shim, "k");
    let child = structured(&shim.call("k", "where", "{}"))["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(child).unwrap()).unwrap(), Signal::KILL).unwrap();
    all_gone(&pids, GONE);
}

#[test]
fn a_grandchild_that_holds_stdout_open_delays_nothing() {
    let home = Home::new();
    home.child("k", &["forks-and-exits"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asked = Instant::now();
    let answer = shim.call("k", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    until_true("the grandchild to go", GONE, || home.children().is_empty());
}

#[test]
fn descriptors_and_threads_come_back_after_crashes() {
    let home = Home::new();
    for child in 0..12 {
        home.child(&format!("k{child}"), &["echo"]);
    }
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k0", "echo", "{}");
    shim.call("k0", "crash", "{}");
    let settled = |descendants: usize| procs::descendants(daemon.pid()).len() <= descendants;
    until_true("the first to be cleared", TEST_TIMEOUT, || settled(0));
    let (fds, threads) = (procs::fds(daemon.pid()), procs::threads(daemon.pid()));
    for _ in 0..3 {
        for child in 1..12 {
            shim.call(&format!("k{child}"), "crash", "{}");
        }
    }
    until_true("all to be cleared, zombies too", TEST_TIMEOUT, || settled(0));
    until_true("the descriptors to come back", TEST_TIMEOUT, || procs::fds(daemon.pid()) <= fds + 2);
    // Idle threads for file work end after a while.
    until_true("the threads to come back", TEST_TIMEOUT, || procs::threads(daemon.pid()) <= threads + 2);
}

// --- killing the guard, the daemon, and both ---

/// The promised limit is 2 s; the machine may be busy.
const SWEPT: Duration = Duration::from_secs(4);

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The pids of all guards in this home.
fn guards(home: &Home) -> Vec<i32> {
    home.processes()
        .iter()
        .filter(|process| process.cmdline.starts_with("switchboard-guard"))
        .map(|process| process.pid)
        .collect()
}

/// The child and its grandchildren of every kind.
fn family(shim: &mut Shim, child: &str) -> Vec<i32> {
    let mut pids = fork(shim, child);
    pids.push(shim.pid_of(child));
    pids
}

#[test]
fn a_killed_guard_leaves_nothing_and_its_callers_are_told() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("stubborn", &["ignores-term"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    for round in 0..5 {
        for child in ["k", "stubborn"] {
            let pids = family(&mut shim, child);
            let own = pids[pids.len() - 1];
            let guard = procs::find(own).unwrap().parent;
            assert!(guards(&home).contains(&guard), "{guard} is no guard");
            let hanging = shim.start_call(child, "hang", "{}");
            until_true("the call", TEST_TIMEOUT, || daemon.suite(child)["children"][0]["inFlight"] == 1);
            let killed = Instant::now();
            kill(guard);
            all_gone(&pids, SWEPT);
            let answer = shim
                .answer_within(&hanging.to_string(), TOLD.saturating_sub(killed.elapsed()))
                .unwrap_or_else(|| panic!("round {round}: `{child}` never answered"));
            assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
            let answer = shim.call(child, "echo", "{}");
            assert!(answer.contains("\"ok\":true"), "round {round}: {answer}");
        }
    }
    // No zombies are left either.
    let zombies =
        || procs::descendants(daemon.pid()).into_iter().filter(|process| process.zombie).collect::<Vec<_>>();
    assert!(becomes(TEST_TIMEOUT, || zombies().is_empty()), "never reaped: {:#?}", zombies());
}

/// In a container, the session leader may be outside of it; then session and process group ids read as 0.
#[test]
fn a_killed_guard_leaves_nothing_in_a_container() {
    bins();
    let contained = |user: &[&str], program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(user).args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        command.arg(program).args(arguments).env("PROTO_TESTS_BUILT", "1").output()
    };
    let users: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let is_possible =
        |user: &&&[&str]| contained(user, Path::new("true"), &[]).is_ok_and(|output| output.status.success());
    let Some(user) = users.iter().find(is_possible) else {
        eprintln!("skipped: this machine lets nobody make a container");
        return;
    };
    let name = "a_killed_guard_leaves_nothing_and_its_callers_are_told";
    let arguments = ["--exact", name, "--nocapture"];
    let output = contained(user, &std::env::current_exe().unwrap(), &arguments).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{complaint}");
}

#[test]
fn a_killed_daemon_leaves_no_process() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("stubborn", &["ignores-term"]);
    for _ in 0..5 {
        let mut daemon = home.daemon();
        let mut pids;
        {
            let mut shim = home.shim();
            pids = family(&mut shim, "k");
            pids.extend(family(&mut shim, "stubborn"));
            // A living shim would start another daemon.
            shim.signal(Signal::KILL);
        }
        pids.extend(guards(&home));
        daemon.kill();
        all_gone(&pids, SWEPT);
        assert!(home.children().is_empty() && guards(&home).is_empty(), "{:#?}", home.processes());
    }
}

#[test]
fn the_next_daemon_clears_up_if_guards_and_daemon_were_killed() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("stubborn", &["ignores-term"]);
    for _ in 0..5 {
        let mut daemon = home.daemon();
        let mut pids;
        {
            let mut shim = home.shim();
            pids = family(&mut shim, "k");
            pids.extend(family(&mut shim, "stubborn"));
            shim.signal(Signal::KILL);
        }
        // Stops them first, so that none sees another die.
        let all: Vec<i32> = guards(&home).into_iter().chain([daemon.pid()]).collect();
        assert_eq!(all.len(), 3);
        for pid in &all {
            kill_process(Pid::from_raw(*pid).unwrap(), Signal::STOP).unwrap();
        }
        all[..2].iter().for_each(|guard| kill(*guard));
        daemon.kill();
        let next = home.daemon();
        all_gone(&pids, SWEPT);
        drop(next);
    }
}

#[test]
fn the_sweep_spares_a_bystander_that_runs_the_same_program() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("k");
    shim.signal(Signal::KILL);
    drop(shim);
    let before = home.processes().len();
    assert!(before >= 3);
    daemon.kill();
    until_true("the children to go", GONE, || home.children().is_empty());
    // It runs a child's program but was never a child. Reused pids are not tested.
    let mut bystander = bystander();
    {
        let _daemon = home.daemon();
        home.shim().pid_of("k");
        assert!(bystander.try_wait().unwrap().is_none(), "the sweep took a bystander");
    }
    assert!(bystander.try_wait().unwrap().is_none(), "the sweep took a bystander");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[allow(clippy::disallowed_methods, reason = "tests start processes")]
fn bystander() -> std::process::Child {
    std::process::Command::new(&proto_tests::bins().evil_child)
        .args(["grandchild", "silent"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

// --- children that resist their guard ---

/// Waits until nobody touches the file any more.
#[track_caller]
fn goes_quiet(file: &std::path::Path) {
    let touched = || std::fs::metadata(file).unwrap().modified().unwrap();
    let is_quiet = || {
        let before = touched();
        std::thread::sleep(Duration::from_millis(500));
        touched() == before
    };
    assert!(becomes(TEST_TIMEOUT, is_quiet), "`{}` is still touched", file.display());
}

#[test]
fn a_chain_of_processes_that_fork_and_exit_does_not_escape() {
    for signal in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        // The chains end when this folder is deleted, even if the test fails.
        let folder = tempfile::tempdir().unwrap();
        let beats = folder.path().join("beats");
        home.child("k", &["chains", beats.to_str().unwrap()]);
        let mut daemon = home.daemon();
        let mut shim = home.shim();
        let (sh, setsid) = (beats.with_extension("sh"), beats.with_extension("setsid"));
        shim.call("k", "echo", "{}");
        until_true("both chains", TEST_TIMEOUT, || sh.exists() && setsid.exists());
        // A living shim would start another daemon.
        shim.signal(Signal::KILL);
        drop(shim);
        daemon.signal(signal);
        daemon.ended(TEST_TIMEOUT);
        until_true("the guard to go", GONE, || guards(&home).is_empty());
        goes_quiet(&sh);
        goes_quiet(&setsid);
    }
}

/// The daemon clears up after a killed guard, and serves other children meanwhile.
#[test]
fn a_chain_of_processes_does_not_outrun_the_daemon_when_its_guard_is_killed() {
    for _ in 0..3 {
        let home = Home::new();
        // The chains end when this folder is deleted, even if the test fails.
        let folder = tempfile::tempdir().unwrap();
        let beats = folder.path().join("beats");
        home.child("k", &["chains", beats.to_str().unwrap()]);
        home.child("other", &["echo"]);
        let _daemon = home.daemon();
        let mut shim = home.shim();
        let (sh, setsid) = (beats.with_extension("sh"), beats.with_extension("setsid"));
        let guard = procs::find(shim.pid_of("k")).unwrap().parent;
        until_true("both chains", TEST_TIMEOUT, || sh.exists() && setsid.exists());
        assert!(guards(&home).contains(&guard), "{guard} is no guard");
        kill(guard);
        let answer = shim.call("other", "echo", "{}");
        assert!(answer.contains("\"ok\":true"), "{answer}");
        goes_quiet(&sh);
        goes_quiet(&setsid);
        let answer = shim.call("other", "echo", "{}");
        assert!(answer.contains("\"ok\":true"), "{answer}");
    }
}

/// Has a child stop its guard, and returns the pids of the child, a grandchild and the guard.
fn stopped_guard(home: &Home, shim: &mut Shim) -> Vec<i32> {
    let file = home.path().join("pids");
    shim.start_call("k", "echo", "{}");
    until_true("the guard to be stopped", TEST_TIMEOUT, || {
        std::fs::read_to_string(&file).is_ok_and(|pids| pids.ends_with('\n'))
    });
    let pids = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_stopped_guard_is_killed_and_its_children_with_it() {
    let home = Home::new();
    home.child("k", &["stops-guard", home.path().join("pids").to_str().unwrap()]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    // With a running daemon: it gives up on a child that does not answer.
    let pids = stopped_guard(&home, &mut shim);
    kill(pids[0]);
    all_gone(&pids, GONE);
    // With a daemon that exits.
    let pids = stopped_guard(&home, &mut shim);
    shim.signal(Signal::KILL);
    drop(shim);
    daemon.signal(Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    all_gone(&pids, Duration::from_secs(1));
}

#[test]
fn a_stopped_guard_of_a_killed_daemon_is_cleared_by_the_next() {
    let home = Home::new();
    home.child("k", &["stops-guard", home.path().join("pids").to_str().unwrap()]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    let pids = stopped_guard(&home, &mut shim);
    shim.signal(Signal::KILL);
    drop(shim);
    daemon.kill();
    let _next = home.daemon();
    all_gone(&pids, GONE);
}

// --- containers ---

/// A fake docker daemon: containers are its children, not those of the client that started them.
struct Docker {
    process: std::process::Child,
    folder: std::path::PathBuf,
}

impl Docker {
    /// Puts `docker` (or `podman`) on the PATH of the login shell, and starts a process that runs its
    /// containers.
    #[allow(clippy::disallowed_methods, reason = "tests start processes")]
    fn start(home: &Home, name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let evil = proto_tests::bins().evil_child.display().to_string();
        let folder = home.path().join("containers");
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        // `run` writes the id to the given file, has a container started, and talks to us on its behalf.
        let cli = format!(
            r#"#!/bin/sh
echo "$*" >> {at}/orders
order=$1; shift
case "$order" in
run)
  file=
  while [ $# -gt 0 ]; do
    case "$1" in
      --cidfile) file=$2; shift 2;;
      --cidfile=*) file=${{1#--cidfile=}}; shift;;
      -*) shift;;
      *) break;;
    esac
  done
  [ -n "$file" ] && [ -e "$file" ] && {{ echo "container ID file found" >&2; exit 125; }}
  id=$(printf %064x $$)
  : > {at}/$id.wanted
  while [ ! -s {at}/$id.pid ]; do sleep 0.01; done
  [ -n "$file" ] && printf %s $id > "$file"
  shift
  exec {evil} "$@"
  ;;
stop|kill|rm)
  for word in "$@"; do id=$word; done
  [ -s {at}/$id.pid ] && kill -9 "$(cat {at}/$id.pid)" 2>/dev/null
  rm -f {at}/$id.pid
  ;;
esac
exit 0
"#
        );
        let path = home.write(&format!("bin/{name}"), &cli);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let bin = path.parent().unwrap().display().to_string();
        home.write(".profile", &format!("export PATH={bin}:/usr/local/bin:/usr/bin:/bin\n"));
        let engine = format!(
            r#"cd {at}
while :; do
  for wanted in *.wanted; do
    [ -e "$wanted" ] || continue
    rm "$wanted"
    sleep 300 & echo $! > new && mv new "${{wanted%.wanted}}.pid"
  done
  sleep 0.02
done"#
        );
        let process = std::process::Command::new("/bin/sh")
            .args(["-c", &engine])
            .env("SWITCHBOARD_TEST", home.mark())
            .spawn()
            .unwrap();
        Self { process, folder }
    }

    /// Ids and pids of the containers that still run.
    fn containers(&self) -> Vec<(String, i32)> {
        let entries = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .filter(|path| path.extension().is_some_and(|kind| kind == "pid"))
            .filter_map(|path| {
                let pid = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
                Some((path.file_stem()?.to_str()?.to_owned(), pid))
            })
            .filter(|(_, pid)| procs::alive(*pid))
            .collect()
    }

    fn orders(&self) -> String {
        std::fs::read_to_string(self.folder.join("orders")).unwrap_or_default()
    }

    /// Whether it was ordered to end this container by its id.
    fn was_told_to_end(&self, id: &str) -> bool {
        self.orders().lines().any(|line| {
            ["stop", "kill", "rm"].iter().any(|order| line.starts_with(order)) && line.ends_with(id)
        })
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn containerised(home: &Home, program: &str) {
    let entry = home.entry(std::path::Path::new(program), &["run", "-i", "--rm", "image", "echo"], &[]);
    home.definition("box", &serde_json::json!({"mcpServers": {"box": entry}}).to_string());
}

#[test]
fn a_container_is_stopped_by_its_id() {
    for program in ["docker", "podman"] {
        let home = Home::new();
        let docker = Docker::start(&home, program);
        containerised(&home, program);
        let mut daemon = home.daemon();
        let mut shim = home.shim();
        assert!(shim.call("box", "echo", "{}").contains("\"ok\":true"));
        let [(id, pid)] = docker.containers().try_into().unwrap();
        assert!(docker.orders().contains("--cidfile"), "{}", docker.orders());

        home.run_ok(&["restart", "box"]);
        until_true("the container to go after a restart", GONE, || !procs::alive(pid));
        assert!(docker.was_told_to_end(&id), "{}", docker.orders());

        assert!(shim.call("box", "echo", "{}").contains("\"ok\":true"));
        let [(id, pid)] = docker.containers().try_into().unwrap();
        kill(shim.pid_of("box"));
        until_true("the container to go with the one that spoke for it", GONE, || !procs::alive(pid));
        assert!(docker.was_told_to_end(&id), "{}", docker.orders());

        until_true("the next one", TEST_TIMEOUT, || shim.call("box", "echo", "{}").contains("\"ok\":true"));
        let [(id, pid)] = docker.containers().try_into().unwrap();
        shim.signal(Signal::KILL);
        drop(shim);
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.ended(TEST_TIMEOUT).code(), Some(0));
        until_true("the container to go with the daemon", GONE, || !procs::alive(pid));
        assert!(docker.was_told_to_end(&id), "{}", docker.orders());
    }
}

#[test]
fn a_container_is_stopped_by_its_id_after_the_daemon_was_killed() {
    let home = Home::new();
    let docker = Docker::start(&home, "docker");
    containerised(&home, "docker");
    for guards_too in [false, true] {
        let mut daemon = home.daemon();
        let mut shim = home.shim();
        assert!(shim.call("box", "echo", "{}").contains("\"ok\":true"));
        shim.signal(Signal::KILL);
        drop(shim);
        let [(id, pid)] = docker.containers().try_into().unwrap();
        let guards = guards(&home);
        if guards_too {
            for stopped in guards.iter().chain([&daemon.pid()]) {
                kill_process(Pid::from_raw(*stopped).unwrap(), Signal::STOP).unwrap();
            }
            guards.iter().for_each(|guard| kill(*guard));
        }
        daemon.kill();
        let next = guards_too.then(|| home.daemon());
        until_true("the container to go", GONE, || !procs::alive(pid));
        assert!(docker.was_told_to_end(&id), "{}", docker.orders());
        drop(next);
    }
}

#[test]
fn a_containers_own_cidfile_is_used() {
    let home = Home::new();
    let docker = Docker::start(&home, "docker");
    let file = home.path().join("my.cid");
    let own = ["run", "--cidfile", file.to_str().unwrap(), "-i", "image", "echo"];
    let entry = home.entry(std::path::Path::new("docker"), &own, &[]);
    home.definition("box", &serde_json::json!({"mcpServers": {"box": entry}}).to_string());
    let _daemon = home.daemon();
    assert!(home.shim().call("box", "echo", "{}").contains("\"ok\":true"), "{}", docker.orders());
    let [(id, pid)] = docker.containers().try_into().unwrap();
    assert_eq!(docker.orders().matches("--cidfile").count(), 1, "{}", docker.orders());
    home.run_ok(&["restart", "box"]);
    until_true("the container to go", GONE, || !procs::alive(pid));
    assert!(docker.was_told_to_end(&id), "{}", docker.orders());
}

#[test]
fn a_file_that_is_no_container_id_is_not_deleted() {
    let home = Home::new();
    let docker = Docker::start(&home, "docker");
    let file = home.write(".ssh/authorized_keys", "ssh-ed25519 AAAA me@here\n");
    let own = ["run", "--cidfile", "../../../../.ssh/authorized_keys", "-i", "image", "echo"];
    let entry = home.entry(std::path::Path::new("docker"), &own, &[]);
    home.definition("box", &serde_json::json!({"mcpServers": {"box": entry}}).to_string());
    let _daemon = home.daemon();
    // The engine refuses it, as it would without Switchboard.
    let answer = home.shim().call("box", "echo", "{}");
    assert!(answer.contains("container ID file found"), "{answer}: {}", docker.orders());
    home.run_ok(&["restart", "box"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "ssh-ed25519 AAAA me@here\n");
}
