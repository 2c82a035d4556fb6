//! The chart of the README: latency, throughput and memory compared with direct use, as a self-contained SVG
//! for light and dark pages.

use std::fmt::Write;

use super::report::{Report, Row, short};

/// One panel: a title, and bars of (label, class, value).
struct Panel {
    title: &'static str,
    unit: &'static str,
    bars: Vec<(&'static str, &'static str, f64)>,
}

const WIDTH: usize = 760;
const BAR: usize = 22;
const LABELS: usize = 210;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.direct{fill:#8c959f}.floor{fill:#54aeff}.ours{fill:#8250df}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.direct{fill:#6e7681}.floor{fill:#388bfd}.ours{fill:#a371f7}}";

/// Draws the panels for which the report has rows.
pub fn svg(report: &Report) -> String {
    let panels: Vec<Panel> = [
        panel(
            report,
            "sequential call through the shim, p50, pinned",
            "One call, all on one core (less is better)",
        ),
        panel(report, "sequential call through the shim, p50, free", "One call, two cores (less is better)"),
        panel(
            report,
            "calls per second, 64 in flight, through the shim",
            "Calls per second, 64 in flight (more is better)",
        ),
        panel(
            report,
            "10 servers of 16 MiB for 3 hosts, everything",
            "Memory of 10 servers of 16 MiB in 3 hosts (less is better)",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    let height: usize = panels.iter().map(|panel| 40 + panel.bars.len() * (BAR + 6)).sum::<usize>() + 10;
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Switchboard beside direct use: latency, throughput and memory"><style>{STYLE}</style>"#
    );
    let mut y = 10;
    for panel in &panels {
        y += 16;
        let _ = write!(out, r#"<text class="title" x="0" y="{y}">{}</text>"#, panel.title);
        y += 10;
        let most = panel.bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
        for (label, class, value) in &panel.bars {
            let room = (WIDTH - LABELS - 120) as f64;
            let width = (value / most * room).max(1.0);
            let (text_y, value_x) = (y + BAR - 6, LABELS as f64 + width + 8.0);
            let _ = write!(
                out,
                r#"<text x="0" y="{text_y}">{label}</text><rect class="{class}" x="{LABELS}" y="{y}" width="{width:.1}" height="{BAR}" rx="3"/><text x="{value_x:.1}" y="{text_y}">{} {}</text>"#,
                short(*value),
                panel.unit
            );
            y += BAR + 6;
        }
        y += 14;
    }
    out.push_str("</svg>\n");
    out
}

fn panel(report: &Report, what: &str, title: &'static str) -> Option<Panel> {
    let row: &Row = report.find(what)?;
    let unit = if row.unit == "us" { "µs" } else { row.unit };
    let bars = [
        ("the server alone", "direct", row.direct),
        ("passing on, no features", "floor", row.floor),
        ("Switchboard", "ours", Some(row.ours)),
    ];
    let bars = bars.into_iter().filter_map(|(label, class, value)| Some((label, class, value?))).collect();
    Some(Panel { title, unit, bars })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_self_contained() {
        let mut report = Report::default();
        report.rows.push(
            Row::new("sequential call through the shim, p50, free", "us", 12.0).beside(Some(1.0), Some(10.0)),
        );
        let svg = svg(&report);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("12.0 µs"));
        assert_eq!(svg.matches("http").count(), 1, "only the namespace may look like an address");
    }
}
