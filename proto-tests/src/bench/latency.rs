//! Sequential calls: how long each takes, with all processes on one core and with no pinning.

use std::net::TcpStream;

use serde_json::{Value, json};

use super::Effort;
use super::drive::{Call, Http, Wire};
use super::report::{Report, Row};
use super::samples::Samples;
use super::setup::{self, BaselineSetup, CpuCores, ECHO, SwitchboardSetup, direct_call, suite_call};
use crate::http::Endpoint;
use crate::streamable::{MODERN, with_meta};

/// The suite of the child on every stage.
const SUITE: &str = "bench_suite";

/// Calls per round; few enough that a disturbance hits few lanes of it.
const CALLS: usize = 300;

/// The smallest valid answer, for hops without a child.
const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}"#;

pub fn measure(effort: Effort, report: &mut Report) {
    let mut child = setup::direct(0);
    let mut pong = setup::pong();
    let floor = BaselineSetup::new();
    let mut floor_shim = floor.shim();
    let ours = SwitchboardSetup::new(1);
    let mut our_shim = ours.warm_shim();
    let ours_endpoint = ours.daemon.as_ref().unwrap().endpoint();
    let body = |call: &Call| {
        let mut body = Vec::new();
        call.push(1, &mut body);
        body
    };
    let mut floor_proxy = Http::new(floor.connect(), "/proxy", "", &body(&direct_call("echo", ECHO)));
    let mut our_proxy = Http::new(ours.connect(), "/proxy", "", &body(&suite_call("echo", ECHO)));
    let mut our_mcp = Http::new(ours.connect(), "/mcp", &modern_headers(), &body(&modern_call()));
    let mut unix_hop = Http::new(floor.connect(), "/hop", "", BODY);
    let tcp = TcpStream::connect(("127.0.0.1", floor.port)).unwrap();
    tcp.set_nodelay(true).unwrap();
    let mut tcp_hop = Http::new(tcp, "/hop", "", BODY);

    let processes: Vec<i32> = [&child, &pong, &floor_shim, &our_shim]
        .iter()
        .map(|piped| piped.process.pid())
        .chain(floor.pids())
        .chain(ours.pids())
        .collect();
    let cores = CpuCores::new();
    for pinned in [true, false] {
        cores.pin(pinned, &processes);
        let mut lanes: [Samples; 9] = Default::default();
        let [direct, ping, floor, ours, floor_http, our_http, mcp, unix, tcp] = &mut lanes;
        let straight = direct_call("echo", ECHO);
        let suite = suite_call("echo", ECHO);
        // The first round warms up caches and clocks, and does not count.
        for round in 0..=effort.pick(8, 40) {
            let mut unused = Samples::default();
            let mut lane = |samples: &mut Samples, work: &mut dyn FnMut(&mut Vec<_>)| {
                if round == 0 { unused.round(work) } else { samples.round(work) }
            };
            lane(direct, &mut |out| child.wire.sequential(&straight, CALLS, out));
            lane(floor, &mut |out| floor_shim.wire.sequential(&straight, CALLS, out));
            lane(ours, &mut |out| our_shim.wire.sequential(&suite, CALLS, out));
            lane(floor_http, &mut |out| floor_proxy.sequential(CALLS, out));
            lane(our_http, &mut |out| our_proxy.sequential(CALLS, out));
            lane(mcp, &mut |out| our_mcp.sequential(CALLS, out));
            lane(ping, &mut |out| pong.wire.sequential(&straight_with_result(), CALLS, out));
            lane(unix, &mut |out| unix_hop.sequential(CALLS, out));
            lane(tcp, &mut |out| tcp_hop.sequential(CALLS, out));
        }
        let place = if pinned { "pinned" } else { "free" };
        rows(report, place, &lanes);
        if pinned {
            measuring(report, &lanes[3], &ours_endpoint);
        }
    }
    cores.pin(false, &[]);
    drop((floor_proxy, our_proxy, our_mcp, our_shim));
}

fn rows(report: &mut Report, place: &str, lanes: &[Samples; 9]) {
    let [direct, ping, floor, ours, floor_http, our_http, mcp, unix, tcp] = lanes;
    let row = |what: &str, of: fn(&Samples) -> f64, ours: &Samples, floor: &Samples| {
        Row::new(format!("{what}, {place}"), "us", of(ours)).beside(Some(of(direct)), Some(of(floor)))
    };
    let call = "sequential call through the shim";
    report.add(row(&format!("{call}, p50"), Samples::p50, ours, floor).to_floor(ours.over(floor)));
    report.add(row(&format!("{call}, p99"), Samples::p99, ours, floor));
    report.add(
        row("`/proxy` without the shim, p50", Samples::p50, our_http, floor_http)
            .to_floor(our_http.over(floor_http)),
    );
    report.add(
        row("`/mcp`, a request of its own, p50", Samples::p50, mcp, floor_http)
            .to_floor(mcp.over(floor_http)),
    );
    for (what, samples) in
        [("pipe ping-pong", ping), ("one HTTP hop, unix socket", unix), ("one HTTP hop, TCP", tcp)]
    {
        let name = format!("(floor) {what}, p50, {place}");
        report.add(Row::new(name, "us", samples.p50()).beside(Some(direct.p50()), None));
    }
}

/// How much of a call's time goes into measuring it while tracing is off. The daemon times the steps itself.
fn measuring(report: &mut Report, calls: &Samples, endpoint: &Endpoint) {
    let answer: Value = endpoint.post("/control/measuring-cost", "").json();
    let micros = answer["nanosPerCall"].as_f64().unwrap() / 1e3;
    report.add(Row::new("measuring a call, tracing off, of its time", "%", 100.0 * micros / calls.p50()));
}

/// A modern host's call, with its `_meta`.
fn modern_call() -> Call {
    let params = json!({
        "name": SUITE,
        "arguments": {"action": "call", "subtool": "echo", "args": serde_json::from_str::<Value>(ECHO).unwrap()},
    });
    Call::method("tools/call", &with_meta(&params).to_string())
}

fn modern_headers() -> String {
    format!(
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {SUITE}\r\n"
    )
}

/// A call for the echoing process: it must contain `"result"` to pass as an answer.
fn straight_with_result() -> Call {
    Call::method("tools/call", r#"{"result":"The quick brown fox jumps over the lazy dog"}"#)
}

/// Measures results that are larger than a pipe's buffer.
pub fn large(effort: Effort, report: &mut Report) {
    let mut child = setup::direct(0);
    let floor = BaselineSetup::new();
    let mut floor_shim = floor.shim();
    let ours = SwitchboardSetup::new(1);
    let mut our_shim = ours.warm_shim();
    for (name, bytes, calls) in [("64 KiB", 64 << 10, 30), ("1 MiB", 1 << 20, 5)] {
        let arguments = format!(r#"{{"bytes":{bytes}}}"#);
        let mut lanes: [Samples; 3] = Default::default();
        for _ in 0..effort.pick(4, 12) {
            let straight = direct_call("big", &arguments);
            let ask = |wire: &mut Wire, call, samples: &mut Samples| {
                samples.round(|out| wire.sequential(call, calls, out));
            };
            ask(&mut child.wire, &straight, &mut lanes[0]);
            ask(&mut floor_shim.wire, &straight, &mut lanes[1]);
            ask(&mut our_shim.wire, &suite_call("big", &arguments), &mut lanes[2]);
        }
        let [direct, floor, ours] = &lanes;
        report.add(
            Row::new(format!("result of {name}, p50, free"), "us", ours.p50())
                .beside(Some(direct.p50()), Some(floor.p50()))
                .to_floor(ours.over(floor)),
        );
    }
    drop(our_shim);
}
