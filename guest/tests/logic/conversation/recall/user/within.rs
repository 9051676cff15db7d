//! One session of a user's, asked alone.

use super::*;

#[test]
fn recall_can_be_limited_to_one_session_of_a_user() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"recall_tokens\": 64"));
    let within = |session: &str| {
        let memory = json!({"recall": "session", "window": false, "look": true});
        json!({"session_id": session, "user_id": "anna", "memory": memory})
    };
    // Some in the index, some in the log, and both of others between them.
    for number in 0..80 {
        if number % 30 == 0 {
            talk(&filter, "anna", "one", &format!("Our dog is called Bello {number}."));
        }
        let other = if number % 4 == 0 { "Our dog, the dog" } else { "remark" };
        talk(&filter, "anna", "two", &format!("{other} {number}."));
    }
    talk(&filter, "anna", "two", "Our dog is called Bello 60.");
    assert!(documents(&host) > 0 && documents(&host) < 2 * 84, "{}", documents(&host));
    let all = recalled(&filter, &of("anna", "new"), "dog?");
    let own = ["Our dog is called Bello 0.", "Our dog is called Bello 30.", "Our dog is called Bello 60."];
    assert!(!all.is_empty() && !own.iter().all(|text| all.iter().any(|found| found == text)), "{all:?}");
    let before = host.waits.get();
    let found = recalled(&filter, &within("one"), "dog?");
    assert_eq!(found.iter().filter(|text| text.contains("dog")).collect::<Vec<_>>(), own.iter().collect::<Vec<_>>());
    assert_eq!(host.waits.get() - before, 2);
    assert!(recalled(&filter, &within("two"), "Who is called Bello?").contains(&own[2].to_owned()));
    assert_eq!(recalled(&filter, &within("three"), "dog?"), [""; 0]);
}
