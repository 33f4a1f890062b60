//! Full-text search over notes.
//!
//! Words of alphabetic scripts are terms, in lower case. Chinese, Japanese and Korean have no spaces
//! between words, so each pair of neighbouring characters is a term, and each character alone counts
//! a little: that finds 密码 in 用户密码策略 without a dictionary.

use std::collections::HashMap;

use super::notes::Note;

/// How much one character counts beside a word or a pair.
const CHARACTER_WEIGHT: f64 = 0.2;
/// The parameters of BM25: how soon repeated terms stop to matter, and how much length does.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// Returns the notes that match a query best; for an empty query, the newest.
pub(super) fn best<'a>(notes: &'a [Note], query: &str, count: usize) -> Vec<&'a Note> {
    let query = terms(query);
    let mut ranked: Vec<(f64, &Note)> = if query.is_empty() {
        notes.iter().map(|note| (0.0, note)).collect()
    } else {
        scored(notes, &query)
    };
    ranked.sort_by(|(left, one), (right, other)| {
        let by_score = right.total_cmp(left);
        by_score.then_with(|| other.modified.cmp(&one.modified))
    });
    ranked
        .into_iter()
        .take(count)
        .map(|(_, note)| note)
        .collect()
}

/// Scores the notes that have any of the terms (BM25).
fn scored<'a>(notes: &'a [Note], query: &HashMap<String, f64>) -> Vec<(f64, &'a Note)> {
    let documents: Vec<HashMap<String, f64>> = notes.iter().map(|note| terms(&note.text)).collect();
    let lengths: Vec<f64> = documents.iter().map(|terms| terms.values().sum()).collect();
    let mean = (lengths.iter().sum::<f64>() / notes.len().max(1) as f64).max(1.0);
    let rarity: HashMap<&str, f64> = query
        .keys()
        .map(|term| {
            let having = documents.iter().filter(|terms| terms.contains_key(term));
            let having = having.count() as f64;
            let rarity = (notes.len() as f64 - having + 0.5) / (having + 0.5);
            (term.as_str(), (1.0 + rarity).ln())
        })
        .collect();
    let mut ranked = Vec::new();
    for ((note, terms), length) in notes.iter().zip(&documents).zip(&lengths) {
        let penalty = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / mean);
        let score: f64 = query
            .iter()
            .filter_map(|(term, weight)| {
                let found = terms.get(term)?;
                let rarity = rarity.get(term.as_str())?;
                Some(weight * rarity * found * (SATURATION + 1.0) / (found + penalty))
            })
            .sum();
        if score > 0.0 {
            ranked.push((score, note));
        }
    }
    ranked
}

/// Returns the terms of a text with their weights.
fn terms(text: &str) -> HashMap<String, f64> {
    let mut terms = HashMap::new();
    let mut add = |term: String, weight: f64| *terms.entry(term).or_insert(0.0) += weight;
    let mut word = String::new();
    let mut previous: Option<char> = None;
    for character in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let is_unspaced = is_unspaced(character);
        if is_unspaced {
            add(character.to_string(), CHARACTER_WEIGHT);
            if let Some(previous) = previous {
                add(format!("{previous}{character}"), 1.0);
            }
        }
        previous = is_unspaced.then_some(character);
        if !is_unspaced && (character.is_alphanumeric() || character == '_') {
            word.push(character);
        } else if !word.is_empty() {
            add(std::mem::take(&mut word), 1.0);
        }
    }
    terms
}

/// Whether a character belongs to a script that is written without spaces between words.
const fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30ff}' // Hiragana and Katakana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Chinese characters
        | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn found(texts: &[&str], query: &str) -> Vec<usize> {
        let notes: Vec<Note> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| Note {
                id: index.to_string(),
                text: (*text).to_owned(),
                saved: String::new(),
                modified: UNIX_EPOCH + Duration::from_secs(index as u64),
            })
            .collect();
        let best = best(&notes, query, 3);
        best.iter().map(|note| note.id.parse().unwrap()).collect()
    }

    #[test]
    fn words_and_pairs_of_characters_are_found() {
        let notes = [
            "The user prefers tabs over spaces in Go files.",
            "用户密码策略：至少十二位，使用 argon2。",
            "Deploy with `make ship`; the staging host is down on Fridays.",
            "部署前必须运行数据库迁移。",
        ];
        for (query, expected) in [
            ("TABS or spaces?", vec![0]),
            ("密码", vec![1]),
            ("密码 argon2", vec![1]),
            ("数据库迁移怎么做", vec![3]),
            ("staging deploy", vec![2]),
            ("kubernetes", vec![]),
            // The newest first.
            ("", vec![3, 2, 1]),
        ] {
            let found = found(&notes, query);
            assert_eq!(found.first(), expected.first(), "{query}: {found:?}");
            if expected.len() != 1 {
                assert_eq!(found, expected, "{query}");
            }
        }
    }

    #[test]
    fn rare_terms_count_more_than_common_ones() {
        let notes = ["the test is slow", "the test is fast", "the argon test"];
        assert_eq!(found(&notes, "the argon")[0], 2);
    }
}
