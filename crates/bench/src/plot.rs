//! Draws the growth as SVG: the size on a logarithmic axis, the CPU time of a step on another.

use std::fmt::Write as _;

use crate::growth::{Point, Series, with_commas};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 400.0;
/// The least distance of two labels.
const LINE_HEIGHT: f64 = 17.0;
/// The smallest time that is drawn, in milliseconds.
const LEAST_MS: f64 = 0.01;

/// Colours of medium brightness, which a light and a dark background both show.
const COLOURS: [&str; 9] = [
    "#3b82f6", "#e5484d", "#12a594", "#8e4ec6", "#d97706", "#0891b2", "#d6409f", "#65a30d",
    "#8b8d98",
];

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.ground { fill: #ffffff } .grid { stroke: #d1d9e0; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .ground { fill: #0d1117 } .grid { stroke: #30363d }
}
";

/// The ranges of both axes, as powers of ten.
#[derive(Clone, Copy, Debug)]
struct Axes {
    largest: i32,
    lowest: i32,
    highest: i32,
}

impl Axes {
    fn of(all: &[Series]) -> Self {
        let points = || all.iter().flat_map(|series| &series.points);
        let largest = points().map(|point| point.size).max().unwrap_or(1);
        let times: Vec<f64> = points().map(time).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(LEAST_MS, f64::max);
        let lowest = least.min(most).log10().floor() as i32;
        Self {
            largest: (f64::from(largest.max(10)).log10().ceil()) as i32,
            lowest,
            highest: (most.log10().ceil() as i32).max(lowest + 1),
        }
    }

    /// A size of 0 is drawn where 1 is.
    fn x(self, size: u32) -> f64 {
        let part = f64::from(size.max(1)).log10() / f64::from(self.largest);
        LEFT + part * (RIGHT - LEFT)
    }

    fn y(self, milliseconds: f64) -> f64 {
        let range = f64::from(self.highest - self.lowest);
        let part = (milliseconds.log10() - f64::from(self.lowest)) / range;
        BOTTOM - part * (BOTTOM - TOP)
    }
}

/// Returns the time that is drawn: differences of noisy measurements can be negative.
fn time(point: &Point) -> f64 {
    point.cpu_ms.max(LEAST_MS)
}

/// Draws all series.
pub(crate) fn svg(all: &[Series]) -> String {
    let axes = Axes::of(all);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"CPU time of one more step by size\">\n<style>\n{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    draw(&mut out, all, axes);
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, all: &[Series], axes: Axes) {
    grid(out, axes);
    let labels = label_heights(all, axes);
    for (index, (series, label)) in all.iter().zip(labels).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let at = |point: &Point| (axes.x(point.size), axes.y(time(point)));
        let path: Vec<String> = series
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", at(point).0, at(point).1))
            .collect();
        line(
            out,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            ),
        );
        for point in &series.points {
            let (x, y) = at(point);
            line(
                out,
                format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"),
            );
        }
        if let Some(last) = series.points.last() {
            let (x, y) = at(last);
            let end = RIGHT + 14.0;
            line(
                out,
                format_args!(
                    "<path d=\"M{x:.1} {y:.1} L{end:.1} {label:.1}\" stroke=\"{colour}\" \
                 stroke-dasharray=\"2 3\" fill=\"none\"/>"
                ),
            );
            line(
                out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    end + 4.0,
                    label + 4.0,
                    escaped(&series.step.replace('`', ""))
                ),
            );
        }
    }
}

fn grid(out: &mut String, axes: Axes) {
    for power in 0..=axes.largest {
        let size = 10_u32.pow(power.unsigned_abs());
        let x = axes.x(size);
        let label = match power {
            0 => "0, 1".to_owned(),
            _ => with_commas(size),
        };
        line(
            out,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                BOTTOM + 20.0
            ),
        );
    }
    for power in axes.lowest..=axes.highest {
        let milliseconds = 10_f64.powi(power);
        let y = axes.y(milliseconds);
        line(
            out,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{milliseconds} ms</text>",
                LEFT - 8.0,
                y + 4.0
            ),
        );
    }
    line(
        out,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">tool calls, children, turns or ended \
         runs that exist already</text>",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 45.0
        ),
    );
    line(
        out,
        format_args!(
            "<text x=\"{LEFT}\" y=\"{:.1}\">CPU time of one more step</text>",
            TOP - 12.0
        ),
    );
}

/// Returns the heights of the labels: beside the last points, moved apart where they would overlap.
fn label_heights(all: &[Series], axes: Axes) -> Vec<f64> {
    let last = |series: &Series| {
        series
            .points
            .last()
            .map_or(BOTTOM, |point| axes.y(time(point)))
    };
    let mut order: Vec<(usize, f64)> = all.iter().map(last).enumerate().collect();
    order.sort_by(|left, right| left.1.total_cmp(&right.1));
    let mut heights = vec![0.0; all.len()];
    let mut free = TOP;
    for (index, wanted) in order {
        heights[index] = wanted.max(free);
        free = heights[index] + LINE_HEIGHT;
    }
    heights
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    writeln!(out, "{text}").ok();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(step: &str, points: &[(u32, f64)]) -> Series {
        Series {
            step: step.to_owned(),
            of: "runs",
            points: points
                .iter()
                .map(|(size, cpu_ms)| Point {
                    size: *size,
                    cpu_ms: *cpu_ms,
                    wall_ms: *cpu_ms,
                })
                .collect(),
        }
    }

    #[test]
    fn equal_factors_have_equal_distances() {
        let all = [series("a", &[(1, 1.0), (10, 10.0), (100, 100.0)])];
        let axes = Axes::of(&all);
        let middle = f64::midpoint(axes.x(1), axes.x(100));
        assert!((axes.x(10) - middle).abs() < 0.001);
        let middle = f64::midpoint(axes.y(1.0), axes.y(100.0));
        assert!((axes.y(10.0) - middle).abs() < 0.001);
        assert!((axes.x(0) - axes.x(1)).abs() < f64::EPSILON);
    }

    #[test]
    fn labels_of_equal_values_do_not_overlap() {
        let same = [(1, 1.0), (10, 1.0)];
        let all = [series("a", &same), series("b", &same), series("c", &same)];
        let mut heights = label_heights(&all, Axes::of(&all));
        heights.sort_by(f64::total_cmp);
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LINE_HEIGHT)
        );
    }

    #[test]
    fn steps_are_written_as_text_and_not_as_markup() {
        let drawn = svg(&[series("`a < b`", &[(0, 0.0), (10, 2.0)])]);
        assert!(drawn.contains(">a &lt; b</text>"), "{drawn}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
