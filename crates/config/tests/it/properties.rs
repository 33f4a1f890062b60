//! Properties of all layers and all files.

use proptest::prelude::*;
use sortie_config::Origin;

use crate::support::Case;

const LAYERS: usize = 4;

fn set_in(case: Case, layer: usize, lines: &[(usize, u32)]) -> Case {
    let keys = [
        "max_concurrent",
        "max_depth",
        "max_children",
        "timeout_seconds",
    ];
    let text = |separator: &str| {
        let lines = lines
            .iter()
            .map(|(key, value)| format!("{} = {value}", keys[*key]));
        lines.collect::<Vec<_>>().join(separator)
    };
    match layer {
        0 => case.user(format!("[subagents]\n{}", text("\n"))),
        1 => case.project(format!("[subagents]\n{}", text("\n"))),
        2 => lines.iter().fold(case, |case, (key, value)| {
            let name = format!("SORTIE__SUBAGENTS__{}", keys[*key].to_uppercase());
            case.variable(&name, &value.to_string())
        }),
        _ => lines.iter().fold(case, |case, (key, value)| {
            case.assign(&format!("subagents.{}={value}", keys[*key]))
        }),
    }
}

fn layer_of(origin: &Origin) -> Option<usize> {
    match origin {
        Origin::Default => None,
        Origin::User(_) => Some(0),
        Origin::Project(_) => Some(1),
        Origin::Environment(_) => Some(2),
        Origin::Flag(_) => Some(3),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The strongest layer that sets a key decides its value and is reported as its origin.
    #[test]
    fn the_strongest_layer_decides(set in prop::array::uniform4(prop::array::uniform4(prop::option::of(1_u32..30)))) {
        let mut case = Case::new();
        for (layer, values) in set.iter().enumerate() {
            let values = values.iter().enumerate();
            let lines: Vec<_> = values.filter_map(|(key, value)| Some((key, (*value)?))).collect();
            case = set_in(case, layer, &lines);
        }
        let loaded = case.load().unwrap();
        let subagents = &loaded.config.subagents;
        let found = [
            (u64::from(subagents.max_concurrent), "max_concurrent", 5),
            (u64::from(subagents.max_depth), "max_depth", 1),
            (u64::from(subagents.max_children), "max_children", 200),
            (subagents.timeout_seconds, "timeout_seconds", 1800),
        ];
        for (key, (value, name, default)) in found.into_iter().enumerate() {
            let strongest = (0..LAYERS).rev().find_map(|layer| Some((layer, set[layer][key]?)));
            let origin = loaded.origin(&format!("subagents.{name}")).unwrap();
            prop_assert_eq!(layer_of(origin), strongest.map(|(layer, _)| layer));
            prop_assert_eq!(value, strongest.map_or(default, |(_, value)| u64::from(value)));
        }
    }

    /// An untrusted file never raises a limit above its value without the file.
    #[test]
    fn an_untrusted_file_never_widens(
        user in prop::array::uniform4(prop::option::of(0_u32..30)),
        project in prop::array::uniform4(prop::option::of(0_u32..30)),
    ) {
        let lines = |values: [Option<u32>; 4]| -> Vec<(usize, u32)> {
            let values = values.into_iter().enumerate();
            // 0 has a meaning of its own for durations only.
            values.filter_map(|(key, value)| Some((key, value?.max(u32::from(key != 3))))).collect()
        };
        let without = set_in(Case::new(), 0, &lines(user));
        let with = set_in(set_in(Case::new(), 0, &lines(user)), 1, &lines(project)).untrusted();
        let without = without.load().unwrap().config;
        let with = with.load().unwrap().config;
        prop_assert!(with.subagents.max_concurrent <= without.subagents.max_concurrent);
        prop_assert!(with.subagents.max_depth <= without.subagents.max_depth);
        prop_assert!(with.subagents.max_children <= without.subagents.max_children);
        let endless = |seconds| if seconds == 0 { u64::MAX } else { seconds };
        prop_assert!(endless(with.subagents.timeout_seconds) <= endless(without.subagents.timeout_seconds));
    }

    /// No text makes the loader panic, and a configuration that passes the checks fits the types.
    #[test]
    fn any_text_is_read_or_refused(
        text in "(lang|model|subagents|providers\\.a|agents\\.b|models\\.'a/b'|[a-z\\[\\]\\.={}'\"\n é中]){0,6}( = |\n|\\.)?[a-z0-9_\\[\\]{}='\"\\.\n中-]{0,40}",
        trusted in any::<bool>(),
    ) {
        let case = Case::new().project(&text);
        let case = if trusted { case } else { case.untrusted() };
        let report = case.report();
        prop_assert!(!report.contains("cannot be deserialized"), "{}", report);
    }

    /// A known key with any value is rejected or fits the types.
    #[test]
    fn any_value_of_a_known_key_fits_or_is_refused(
        key in prop::sample::select(vec![
            "lang", "model", "fallbacks", "temperature", "max_tokens", "main", "subagents",
            "subagents.enabled", "subagents.max_depth", "subagents.default_cleanup",
            "subagents.tools.allow", "subagents.archive_after_minutes", "providers.x",
            "providers.x.api_key", "providers.x.headers", "providers.x.headers.y",
            "providers.x.max_concurrent", "models.x.price", "models.x.price.input",
            "models.x.tools", "agents.x.tools", "agents.x.tools.deny", "agents.x.max_iterations",
        ]),
        value in prop::sample::select(vec![
            "0", "1", "-1", "4294967296", "9223372036854775807", "0.5", "1e300", "nan", "true",
            "'keep'", "'en'", "'auto'", "''", "'text'", "[]", "['a']", "[1]", "[['a']]", "{}",
            "{ a = 1 }", "{ a = 'b' }", "1979-05-27", "{ deny = ['x'] }", "{ input = 1 }",
        ]),
    ) {
        let report = Case::new().user(format!("{key} = {value}")).report();
        prop_assert!(!report.contains("cannot be deserialized"), "{}", report);
    }
}
