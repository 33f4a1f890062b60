//! Tests of the metrics.

use crate::support::{SAYS_DONE, World};

#[tokio::test]
async fn names_of_counters_end_in_total() {
    let world = World::begin(SAYS_DONE).await;
    let response = world.get("/metrics").send().await.unwrap();
    let text = response.text().await.unwrap();
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    assert!(counters.contains(&"sortie_tokens_total"), "{text}");
    for name in counters {
        assert!(name.ends_with("_total"), "{name}");
    }
}
