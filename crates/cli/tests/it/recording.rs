//! The picture of the terminal in the README, from the real binary on a real pseudo-terminal.

use std::fmt::Write as _;
use std::path::Path;

use crate::screen::Screen;
use crate::world::World;

/// The size of one cell, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
/// The space around each terminal, in pixels.
const MARGIN: f64 = 14.0;
const ROWS: u16 = 24;
const COLUMNS: u16 = 84;
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";
/// The sixteen colours of a terminal.
const COLOURS: [&str; 16] = [
    "#16181d", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0",
    "#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff",
];

const STORY: &str = r#"
  - when: { agent: main, turn: 1 }
    say: "Two agents look first, one writes."
    calls:
      - { tool: task, args: { description: find the password check, prompt: Find., subagent_type: explore } }
      - { tool: task, args: { description: plan the migration, prompt: Plan., subagent_type: plan } }
      - { tool: task, args: { description: hash with argon2, prompt: Write., subagent_type: code } }
  - when: { agent: main }
    say: "Done: `verify_password` uses argon2, and old hashes are upgraded at login."
  - when: { agent: explore, turn: 1 }
    calls: [{ tool: grep, args: { pattern: md5 } }]
  - when: { agent: explore }
    say: "The check is `verify_password` in src/auth.py."
  - when: { agent: plan, turn: 1 }
    calls: [{ tool: read_file, args: { path: src/auth.py } }]
  - when: { agent: plan }
    say: "Verify with argon2, and upgrade old hashes at login."
  - when: { agent: code, turn: 1 }
    calls: [{ tool: edit_file, args: { path: src/auth.py, old_string: "    return md5(password) == stored", new_string: "    return argon2.verify(stored, password)" } }]
  - when: { agent: code }
    say: changed
"#;

#[test]
#[ignore = "writes docs/terminal.svg; `cargo xtask recording` runs it"]
fn picture_of_the_terminal() {
    let world = World::new().with("USER", "anna");
    world.write(
        "src/auth.py",
        "from hashlib import md5\n\ndef verify_password(stored, password):\n    return md5(password) == stored\n",
    );
    let model = world.scenario(STORY);
    let size = (ROWS, COLUMNS);
    let term = "xterm-256color";
    let mut chat = Screen::sized(&world, &["--model", &model], size, term);
    chat.types("Migrate our passwords from md5 to argon2\r");
    chat.shows("asks to run edit_file");
    chat.until("the other agents", |text| {
        text.matches("- done").count() == 2
    });
    let mut top = Screen::sized(&world, &["top"], size, term);
    top.shows("one task needs you");
    top.until("the row of the child", |text| {
        text.contains("needs you  code")
    });
    // The third child of the first row.
    top.presses("jjj");
    top.shows("a approves this call");
    let svg = svg(&[&chat, &top], &world);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terminal.svg");
    std::fs::write(target, svg).unwrap();
    top.presses("a");
    top.shows("Approved.");
    chat.shows("old hashes are upgraded at login");
    top.presses("q");
    assert_eq!(top.exit_code(), 0);
    chat.types("\u{4}");
    assert_eq!(chat.exit_code(), 0);
}

/// Draws terminals below each other. Names of temporary folders are replaced.
fn svg(screens: &[&Screen], world: &World) -> String {
    let width = f64::from(COLUMNS) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(ROWS) * CELL.1 + 2.0 * MARGIN;
    let total = height * screens.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {total}\" font-family=\"monospace\" font-size=\"14\">\n"
    );
    let folder = world.folder().display().to_string();
    for (index, screen) in screens.iter().enumerate() {
        let y = height * index as f64;
        // Writing to a String cannot fail.
        writeln!(
            svg,
            "<rect x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{}\" rx=\"8\" fill=\"{BACKGROUND}\"/>",
            height - 4.0
        )
        .unwrap();
        for row in 0..ROWS {
            let line = y + MARGIN + CELL.1 * (f64::from(row) + 0.8);
            draw_row(&mut svg, screen, (row, line), &folder);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the runs of equal cells of a row, at a height in pixels.
fn draw_row(svg: &mut String, screen: &Screen, (row, line): (u16, f64), folder: &str) {
    let screen = screen.emulator.screen();
    let mut column = 0;
    while column < COLUMNS {
        let Some(first) = screen.cell(row, column) else {
            return;
        };
        let start = column;
        let mut text = String::new();
        while let Some(cell) = screen.cell(row, column).filter(|_| column < COLUMNS) {
            let is_same = cell.fgcolor() == first.fgcolor()
                && cell.bold() == first.bold()
                && cell.dim() == first.dim()
                && cell.inverse() == first.inverse();
            if !is_same {
                break;
            }
            text.push_str(if cell.has_contents() {
                cell.contents()
            } else {
                " "
            });
            column += 1;
        }
        let x = MARGIN + f64::from(start) * CELL.0;
        let length = f64::from(column - start) * CELL.0;
        let mut colour = match first.fgcolor() {
            vt100::Color::Idx(index) => COLOURS.get(usize::from(index)).copied(),
            vt100::Color::Default | vt100::Color::Rgb(..) => None,
        }
        .unwrap_or(FOREGROUND);
        if first.inverse() {
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{}\" fill=\"{FOREGROUND}\"/>",
                line - 14.0,
                CELL.1
            )
            .unwrap();
            colour = BACKGROUND;
        }
        if text.trim().is_empty() {
            continue;
        }
        let shown = text
            .trim_end()
            .replace(&format!("{folder}/workspace"), "~/shop")
            .replace(folder, "~");
        let chars = shown.chars().count() as f64;
        let shown = shown
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let weight = if first.bold() {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let faint = if first.dim() { " opacity=\"0.6\"" } else { "" };
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{line:.1}\" fill=\"{colour}\"{weight}{faint} xml:space=\"preserve\" textLength=\"{:.1}\">{shown}</text>",
            chars * CELL.0
        )
        .unwrap();
    }
}
