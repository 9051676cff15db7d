//! A user who is forgotten while others are at work: nothing is recalled of what is deleted.

use super::*;
use crate::admin_calls as admin;

const DOG: &str = "Our dog is called Bello.";
const CAT: &str = "Our cat is called Mia.";

/// Two sessions: of one, a part was copied; of the other, nothing.
fn begun(host: &TestHost) {
    let filter = filter(host, OPTIONS);
    talk(&filter, "anna", "one", DOG);
    for session in ["one", "two"] {
        let asked = ask(&filter, CAT, &of("anna", session));
        reply(&filter, CAT, "Well.", &asked.turn);
    }
}

fn copy(host: &TestHost) {
    for session in ["one", "two"] {
        finish(&super::super::super::filter(host, OPTIONS), &mut work(session, "recall"));
    }
}

/// What the user has of the two sessions.
fn is_known(host: &TestHost) -> bool {
    let theirs = format!("{:?}", host.bucket("User/anna").logs);
    [DOG, CAT].iter().any(|text| theirs.contains(text))
}

#[test]
fn a_copier_at_any_call_leaves_nothing_of_a_deleted_session() {
    for copied in 1..20 {
        for back in copied..20 {
            let host = TestHost::new();
            begun(&host);
            let begin = host.transactions.get();
            let mut number = 0;
            host.before_each(move |host, _| {
                number += 1;
                if number == copied {
                    copy(host);
                }
                if number == back {
                    talk(&super::super::super::filter(host, OPTIONS), "anna", "back", "Our bird is called Bo.");
                }
            });
            let done = admin::forget_user(&sessions(&host), "anna").unwrap();
            host.before_each(|_, _| {});
            assert!(host.transactions.get() > begin);
            let is_there = |session: &str| host.names().iter().any(|name| name == session);
            assert_eq!((is_there("one"), is_there("two"), is_known(&host)), (false, false, false), "{copied} {back}");
            // Whoever came back is in their lists, and is told.
            assert_eq!(is_there("back"), done.remaining > 0, "{copied} {back} {done:?}");
            if is_there("back") {
                finish(&filter(&host, OPTIONS), &mut work("back", "recall"));
                assert_eq!(recalled(&filter(&host, OPTIONS), &of("anna", "new"), "bird?")[0], "Our bird is called Bo.");
            }
            while admin::forget_user(&sessions(&host), "anna").unwrap().remaining > 0 {}
            assert_eq!(host.bucket("User/anna").maps["user"].len(), 2);
        }
    }
}

#[test]
fn a_running_task_does_not_restore_a_forgotten_user() {
    for call in 1..10 {
        let host = TestHost::new();
        begun(&host);
        let begin = host.transactions.get();
        host.before_each(move |host, count| {
            if count == begin + call {
                while admin::forget_user(&sessions(host), "anna").unwrap().remaining > 0 {}
            }
        });
        copy(&host);
        host.before_each(|_, _| {});
        assert!(host.transactions.get() < begin + call || !is_known(&host), "{call}");
    }
}
