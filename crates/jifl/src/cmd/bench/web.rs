// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web set: an Apache server and ApacheBench on the loopback interface, under every
//! instrumentation in turn. It measures time only, because server and clients overlap.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::instruments::{self, Instrument, Known, Live, What};
use super::programs::Scratch;
use super::series::{self, Series, Trouble};
use super::sheet::{Operation, Row};
use crate::show::output;

const PORT: u16 = 8093;
const SERVER: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";
const CLIENTS: &str = "4";
/// Size of the served file, in bytes.
const SIZE: usize = 4096;
/// Number of the system call on x86-64. It is made once for each connection, and each request is a
/// connection.
const ACCEPT: u32 = syscalls::Sysno::accept4 as u32;

/// The measurements of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Requests a second.
    pub throughput: f64,
    /// Milliseconds in which half of the requests were answered.
    pub p50: f64,
    /// Milliseconds in which 99 % of the requests were answered.
    pub p99: f64,
}

/// The columns of a sheet, from a run.
pub fn operations() -> Vec<Operation> {
    let operation = |name: &str, unit: &str| Operation {
        name: name.into(),
        unit: unit.into(),
    };
    vec![
        operation("throughput", "requests/s"),
        operation("latency p50", "ms"),
        operation("latency p99", "ms"),
    ]
}

/// Rows, and how often they are measured.
pub struct Plan {
    /// Rows; the first is the uninstrumented one.
    pub rows: Vec<Instrument>,
    /// Maximum of requests of a turn.
    pub requests: u64,
    /// Maximum of requests of a turn of a row that makes requests slow.
    pub fixed: bool,
    /// How often the rows take turns. Peers take one turn, because it takes minutes to switch them
    /// on.
    pub repeats: u64,
}

impl Plan {
    /// Requests of a turn, if requests are answered this fast.
    fn requests(&self, throughput: f64) -> u64 {
        const SECONDS: f64 = 5.0;
        const LEAST: u64 = 200;
        if self.fixed {
            return self.requests;
        }
        self.requests.min(LEAST.max((SECONDS * throughput) as u64))
    }
}

/// Measures the rows in turns.
pub fn measure(plan: &Plan) -> Vec<Row> {
    let rows = &plan.rows;
    let mut found = vec![vec![Series::default(); 3]; rows.len()];
    match Server::start() {
        Err(why) => {
            let missing = Series::without(Trouble::Missing(why));
            found = vec![vec![missing; 3]; rows.len()];
        }
        Ok(server) => turns(&server, plan, &mut found),
    }
    let names: Vec<String> = operations().into_iter().map(|op| op.name).collect();
    let rows = rows.iter().zip(&found).filter(|(row, _)| !is_cold(row));
    rows.map(|(row, found)| {
        let found: Vec<_> = names.iter().map(String::as_str).zip(found).collect();
        series::row(row, &found)
    })
    .collect()
}

/// True for cold rows. The web set has none: nobody runs a server with a session for each request.
fn is_cold(row: &Instrument) -> bool {
    matches!(row.what, What::Cold(_))
}

fn turns(server: &Server, plan: &Plan, found: &mut [Vec<Series>]) {
    let (rows, requests, repeats) = (&plan.rows, plan.requests, plan.repeats);
    // The server starts threads at its first requests.
    let _ = server.bench(requests);
    let peers = rows.iter().any(|row| matches!(row.what, What::Peer(..)));
    let sites = peers.then(|| {
        instruments::sites(&mut || {
            let _ = server.bench(requests / 4);
        })
    });
    let known = Known {
        sites,
        ..Known::default()
    };
    for repeat in 1..=repeats {
        output::note(&format!("jifl bench: web, turn {repeat} of {repeats}"));
        let mut native = None;
        for (row, series) in rows.iter().zip(&mut *found) {
            let is_peer = matches!(row.what, What::Peer(..));
            if is_cold(row) || series[0].has_failed() || (is_peer && repeat > 1) {
                continue;
            }
            if is_peer {
                output::note(&format!("jifl bench: web, row {}", row.key));
            }
            enter(series, row, one(server, row, &known, plan), &mut native);
        }
    }
}

/// Enters the run of a turn. `native`: the uninstrumented run of this turn, if there is one.
fn enter(
    series: &mut [Series],
    row: &Instrument,
    run: Result<Run, Trouble>,
    native: &mut Option<Run>,
) {
    if row.what == What::Native {
        *native = run.as_ref().ok().copied();
    }
    match run.and_then(|run| Ok((run, native.ok_or_else(Trouble::alone)?))) {
        Ok((run, native)) => push(series, run, native),
        Err(trouble) => {
            for series in series {
                series.fail(trouble.clone());
            }
        }
    }
}

fn push(series: &mut [Series], run: Run, native: Run) {
    series[0].push(run.throughput, native.throughput / run.throughput);
    series[1].push(run.p50, run.p50 / native.p50);
    series[2].push(run.p99, run.p99 / native.p99);
}

fn one(server: &Server, row: &Instrument, known: &Known, plan: &Plan) -> Result<Run, Trouble> {
    let live = Live::start(row.what, known).map_err(Trouble::Missing)?;
    let first = server.bench(plan.requests / 10).map_err(Trouble::Void)?;
    let requests = plan.requests(first.throughput);
    let before = live.counts(&[ACCEPT]).map_err(Trouble::Void)?;
    let run = server.bench(requests).map_err(Trouble::Void)?;
    let after = live.counts(&[ACCEPT]).map_err(Trouble::Void)?;
    if let (Some(from), Some(to)) = (before.calls.first(), after.calls.first()) {
        // The last connection may not have been counted yet.
        let counted = to - from;
        if counted + 1 < requests {
            let why = format!("counted {counted} of {requests} connections");
            return Err(Trouble::Void(why));
        }
    }
    if before.inside.is_some() && after.inside <= before.inside {
        return Err(Trouble::Void("counted nothing".into()));
    }
    Ok(run)
}

/// A server, until it is dropped.
struct Server {
    scratch: Scratch,
    process: Child,
}

impl Server {
    fn start() -> Result<Server, String> {
        if !Path::new(SERVER).exists() {
            return Err("apache2 is not installed (Debian's apache2 and apache2-utils)".into());
        }
        let scratch = Scratch::new()?;
        scratch.write("file", &"x".repeat(SIZE))?;
        let text = configuration(&scratch.path("."));
        let file = scratch.write("apache2.conf", &text)?;
        let mut command = Command::new(SERVER);
        command.arg("-f").arg(file).arg("-DFOREGROUND");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        jifl_sys::os::tie_to_parent(&mut command, &[]);
        let process = command
            .spawn()
            .map_err(|error| format!("{SERVER}: {error}"))?;
        let server = Server { scratch, process };
        server.wait()?;
        Ok(server)
    }

    fn wait(&self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            if Instant::now() > end {
                return Err("apache2 does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn bench(&self, requests: u64) -> Result<Run, String> {
        let latencies = self.scratch.path("latencies");
        let mut command = Command::new("ab");
        command
            .args(["-q", "-c", CLIENTS, "-n"])
            .arg(requests.to_string());
        command.arg("-e").arg(&latencies);
        command.arg(format!("http://127.0.0.1:{PORT}/file"));
        command.stdin(Stdio::null());
        let done = command.output().map_err(|error| format!("ab: {error}"))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let percentiles = std::fs::read_to_string(latencies).unwrap_or_default();
        parse(&text, &percentiles, requests)
            .ok_or_else(|| "ab: not every request was answered".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

fn configuration(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "ServerName localhost\n\
         Listen 127.0.0.1:{PORT}\n\
         User www-data\n\
         Group www-data\n\
         PidFile {directory}/pid\n\
         ErrorLog {directory}/error.log\n\
         DefaultRuntimeDir {directory}\n\
         LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
         LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
         DocumentRoot {directory}\n"
    )
}

/// The measurements of a run; `None` unless all requests were answered.
fn parse(text: &str, percentiles: &str, requests: u64) -> Option<Run> {
    let number = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let percentile = |wanted: &str| -> Option<f64> {
        let mut lines = percentiles.lines().filter_map(|line| line.split_once(','));
        lines
            .find(|(percent, _)| *percent == wanted)?
            .1
            .parse()
            .ok()
    };
    let whole = number("Complete requests:")? == requests as f64
        && number("Failed requests:")? == 0.0
        && !text.contains("Non-2xx responses");
    whole.then_some(Run {
        throughput: number("Requests per second:")?,
        p50: percentile("50")?,
        p99: percentile("99")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::instruments::INSTRUMENTS;
    use super::*;

    const TEXT: &str = "Complete requests:      100\nFailed requests:        0\n\
                        Requests per second:    512.25 [#/sec] (mean)\n";
    const PERCENTILES: &str = "Percentage served,Time in ms\n0,0.5\n50,1.250\n99,7.5\n";

    #[test]
    fn runs_are_read() {
        let run = Run {
            throughput: 512.25,
            p50: 1.25,
            p99: 7.5,
        };
        assert_eq!(parse(TEXT, PERCENTILES, 100), Some(run));
    }

    #[test]
    fn a_run_without_an_uninstrumented_one_beside_it_is_void() {
        let run = |throughput| Run {
            throughput,
            p50: 1.0,
            p99: 2.0,
        };
        let (native, other) = (&INSTRUMENTS[0], &INSTRUMENTS[1]);
        let mut beside = None;
        let mut series = vec![vec![Series::default(); 3]; 2];
        enter(&mut series[0], native, Ok(run(200.0)), &mut beside);
        enter(&mut series[1], other, Ok(run(100.0)), &mut beside);
        let cell = |series: &[Series]| series::row(other, &[("x", &series[0])]).cells[0].clone();
        assert_eq!(cell(&series[1]).ratio, 2.0);
        let failed = Err(Trouble::Void("ab: failed".into()));
        enter(&mut series[0], native, failed, &mut beside);
        enter(&mut series[1], other, Ok(run(100.0)), &mut beside);
        let why = cell(&series[1]).void;
        assert_eq!(why.as_deref(), Some("no uninstrumented figure beside it"));
    }

    #[test]
    fn a_run_that_failed_in_part_is_none() {
        assert_eq!(parse(TEXT, PERCENTILES, 200), None);
        assert_eq!(parse(TEXT, "", 100), None);
        let refused = format!("{TEXT}Non-2xx responses:      3\n");
        assert_eq!(parse(&refused, PERCENTILES, 100), None);
    }
}
