//! The colours of the terminal, for a light and for a dark background.
//!
//! On a dark background the sixteen colours of the terminal are used, which its user has chosen. On
//! a light one some of them cannot be read (yellow, cyan, faint), and fixed ones replace them.

use std::sync::atomic::{AtomicBool, Ordering};

use console::Style;
use sortie_config::Theme;

/// Codes of the 256 colours that are read on a light background.
const DARK_GREEN: u8 = 28;
const DARK_RED: u8 = 124;
const DARK_ORANGE: u8 = 130;
const DARK_CYAN: u8 = 24;
const DARK_MAGENTA: u8 = 90;
const DARK_GREY: u8 = 241;

/// Whether the background is light. Decided at the start of the process, before colours are used.
static LIGHT: AtomicBool = AtomicBool::new(false);
/// Whether the terminal is still to be asked for its background.
static UNKNOWN: AtomicBool = AtomicBool::new(false);

/// Decides the theme, as far as that is possible without asking the terminal.
pub(crate) fn settle(configured: Theme, colorfgbg: Option<&str>, colors: bool) {
    let known = match configured {
        Theme::Light => Some(true),
        Theme::Dark => Some(false),
        Theme::Auto => colorfgbg.and_then(is_light_by_number),
    };
    LIGHT.store(known.unwrap_or(false), Ordering::Relaxed);
    UNKNOWN.store(colors && known.is_none(), Ordering::Relaxed);
}

/// Whether the terminal is still to be asked. True at most once.
pub(crate) fn take_question() -> bool {
    UNKNOWN.swap(false, Ordering::Relaxed)
}

/// Takes the reply of a terminal to OSC 11, such as `rgb:ffff/ffff/ffff`.
pub(crate) fn take_reply(reply: &str) {
    if let Some(is_light) = is_light_by_rgb(reply) {
        LIGHT.store(is_light, Ordering::Relaxed);
    }
}

/// Whether `COLORFGBG` (foreground, sometimes a third field, background) names a light background.
fn is_light_by_number(value: &str) -> Option<bool> {
    let background: u8 = value.rsplit(';').next()?.parse().ok()?;
    Some(matches!(background, 7 | 9..=15))
}

/// Whether a colour is light, by the weights of the three parts for the eye.
fn is_light_by_rgb(colour: &str) -> Option<bool> {
    let parts = colour.strip_prefix("rgb:")?;
    let mut sum = 0.0;
    let mut count = 0;
    for (part, weight) in parts.split('/').zip([0.299, 0.587, 0.114]) {
        let digits = u32::try_from(part.len())
            .ok()
            .filter(|digits| (1..=4).contains(digits))?;
        let value = u32::from_str_radix(part, 16).ok()?;
        let most = 16_u32.pow(digits) - 1;
        sum += weight * f64::from(value) / f64::from(most);
        count += 1;
    }
    (count == 3).then_some(sum > 0.5)
}

/// Styles by meaning.
pub(crate) trait Themed {
    /// What has succeeded, or was added.
    fn good(self) -> Self;
    /// What has failed, or was removed.
    fn bad(self) -> Self;
    /// What needs attention.
    fn warning(self) -> Self;
    /// What is in progress, and code.
    fn info(self) -> Self;
    /// What matters less.
    fn muted(self) -> Self;
    /// What is rare.
    fn special(self) -> Self;
    /// The colour of the text.
    fn plain(self) -> Self;
}

impl Themed for Style {
    fn good(self) -> Self {
        on(self, Self::green, DARK_GREEN)
    }

    fn bad(self) -> Self {
        on(self, Self::red, DARK_RED)
    }

    fn warning(self) -> Self {
        on(self, Self::yellow, DARK_ORANGE)
    }

    fn info(self) -> Self {
        on(self, Self::cyan, DARK_CYAN)
    }

    fn muted(self) -> Self {
        on(self, Self::dim, DARK_GREY)
    }

    fn special(self) -> Self {
        on(self, Self::magenta, DARK_MAGENTA)
    }

    fn plain(self) -> Self {
        self
    }
}

/// Applies the colour for the background.
fn on(style: Style, dark: fn(Style) -> Style, light: u8) -> Style {
    match LIGHT.load(Ordering::Relaxed) {
        true => style.color256(light),
        false => dark(style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_background() {
        for (value, is_light) in [
            ("15;0", Some(false)),
            ("0;15", Some(true)),
            ("0;default;7", Some(true)),
            ("12;8", Some(false)),
            ("15;default", None),
            ("", None),
        ] {
            assert_eq!(is_light_by_number(value), is_light, "{value}");
        }
    }

    #[test]
    fn a_reply_of_the_terminal_names_the_background() {
        for (colour, is_light) in [
            ("rgb:ffff/ffff/ffff", Some(true)),
            ("rgb:1e1e/1e1e/2e2e", Some(false)),
            ("rgb:fd/f6/e3", Some(true)),
            ("rgb:0/0/f", Some(false)),
            ("rgb:ffff/ffff", None),
            ("#ffffff", None),
        ] {
            assert_eq!(is_light_by_rgb(colour), is_light, "{colour}");
        }
    }
}
