//! Checks which sandbox confines commands on this machine, by trying each part.

use sortie_core::run::SandboxMode;
use sortie_sandbox::Offer;
use sortie_text::t;

use super::Check;
use crate::settings::Settings;

/// Reports which sandbox would be used.
pub(super) fn check(settings: &Settings) -> Check {
    match settings.options.probe_sandbox() {
        Some(offer) => chosen(settings, &offer),
        None => unknown(settings),
    }
}

fn unknown(settings: &Settings) -> Check {
    Check::warn(
        "sandbox",
        t!(settings.lang, "doctor-unknown"),
        t!(settings.lang, "doctor-sandbox-todo"),
    )
}

/// Reports which sandbox would be used, and what each of its parts can do.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    match settings.options.probe_sandbox() {
        Some(offer) => vec![
            chosen(settings, &offer),
            bubblewrap(settings, &offer),
            namespaces(settings, &offer),
            landlock(settings, &offer),
            control_groups(settings, &offer),
        ],
        None => vec![unknown(settings)],
    }
}

fn chosen(settings: &Settings, offer: &Offer) -> Check {
    let lang = settings.lang;
    match settings.configuration.config().sandbox.mode {
        SandboxMode::Off => Check::warn(
            "sandbox",
            t!(lang, "doctor-sandbox-off"),
            t!(lang, "doctor-sandbox-off-todo"),
        ),
        SandboxMode::Required => match offer.best() {
            Some(backend) => Check::ok(
                "sandbox",
                t!(lang, "doctor-sandbox-ok", backend = backend.name()),
            ),
            None => Check::warn(
                "sandbox",
                t!(lang, "doctor-sandbox-none"),
                t!(lang, "doctor-sandbox-todo"),
            ),
        },
    }
}

fn bubblewrap(settings: &Settings, offer: &Offer) -> Check {
    let lang = settings.lang;
    match &offer.bubblewrap {
        Some(found) => Check::ok(
            "bwrap",
            format!("{} ({})", found.version, found.path.display()),
        ),
        None => Check::warn(
            "bwrap",
            t!(lang, "doctor-bwrap-none"),
            t!(lang, "doctor-bwrap-todo"),
        ),
    }
}

fn namespaces(settings: &Settings, offer: &Offer) -> Check {
    let lang = settings.lang;
    if offer.namespaces {
        Check::ok("namespaces", t!(lang, "doctor-namespaces-on"))
    } else {
        Check::warn(
            "namespaces",
            t!(lang, "doctor-namespaces-off"),
            t!(lang, "doctor-namespaces-todo"),
        )
    }
}

fn landlock(settings: &Settings, offer: &Offer) -> Check {
    let lang = settings.lang;
    match offer.landlock {
        0 => Check::warn(
            "landlock",
            t!(lang, "doctor-landlock-off"),
            t!(lang, "doctor-landlock-todo"),
        ),
        version => Check::ok(
            "landlock",
            t!(lang, "doctor-landlock-on", version = version),
        ),
    }
}

fn control_groups(settings: &Settings, offer: &Offer) -> Check {
    let lang = settings.lang;
    if offer.cgroups.parents.is_empty() {
        // Without control groups, limits apply to each process instead of to all together; that
        // needs no action.
        Check::ok("control_groups", t!(lang, "doctor-cgroups-off"))
    } else {
        Check::ok("control_groups", t!(lang, "doctor-cgroups-on"))
    }
}
